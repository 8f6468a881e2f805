"""Small mistakes in functions: finds a function by its name, and makes a mistake there by an operator.

`find(name, sources)` returns definitions in C++, CUDA and Python, by tokens alone. `sites(function, operator)` returns
every place where an operator applies. `plant(text, mutants)` returns a source with all mutants: a body stands once more for
each of them, and the environment variable FRUGAL_FAULT, a number, chooses among them.
"""

import ast
import collections
import dataclasses
import io
import pathlib
import re
import tokenize

CPP = (".cpp", ".h", ".cu", ".cuh")

# Kernels are compiled with it for the emulated GPU, which is told of all that instrumented code reads.
HEADER = """#pragma once
#include <cstdlib>
#include <type_traits>
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wempty-body"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wreturn-type"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wlogical-op"
#pragma GCC diagnostic ignored "-Wduplicated-branches"
#pragma GCC diagnostic ignored "-Wduplicated-cond"
[[maybe_unused]] static const int frugal_fault_on = [] {
  const char* const number = std::getenv("FRUGAL_FAULT");
  return number == nullptr ? 0 : std::atoi(number);
}();
[[maybe_unused, gnu::no_sanitize_thread]] static bool frugal_fault_is(int number) { return number == frugal_fault_on; }
[[maybe_unused]] static constexpr bool frugal_fault(int number) {
  return std::is_constant_evaluated() ? false : frugal_fault_is(number);
}
"""
PYTHON = 'def _fault(number): import os; return os.environ.get("FRUGAL_FAULT") == str(number)  # noqa\n'


@dataclasses.dataclass(frozen=True)
class Function:
    """A definition; its body is text[begin:end], in C++ what stands between its braces."""
    name: str
    file: str
    text: str = dataclasses.field(repr=False, compare=False)
    code: str = dataclasses.field(repr=False, compare=False)  # the text with comments and strings blank
    begin: int
    end: int

    @property
    def python(self):
        return self.file.endswith(".py")


@dataclasses.dataclass(frozen=True)
class Site:
    """One mistake: text[begin:end] of a function's source becomes `wrong`."""
    function: Function
    operator: str
    begin: int
    end: int
    wrong: str

    @property
    def line(self):
        return self.function.text.count("\n", 0, self.begin) + 1

    @property
    def right(self):
        return self.function.text[self.begin:self.end]


# --- where functions are ---------------------------------------------------------------------------------------------

CPP_BLANK = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|'
                       r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.DOTALL | re.MULTILINE)


def masked(text, python=False):
    """The text, as long as it was, with spaces for comments, strings and what the preprocessor reads."""
    if not python:
        return CPP_BLANK.sub(lambda match: blank_of(match[0]), text)
    starts = line_starts(text)
    blank = list(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            begin, end = starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
            blank[begin:end] = blank_of(text[begin:end])
    return "".join(blank)


def blank_of(text):
    """As much space; quotes stay at both ends of a string."""
    blank = re.sub(r"[^\n]", " ", text)
    return f'"{blank[2:]}"' if text[-1] in "\"'" and "#" not in text[:1 + len(text) - len(text.lstrip())] else blank


def line_starts(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def closing(code, begin):
    """The position after what closes the bracket at `begin`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    depth = 0
    for match in re.compile(f"[{re.escape(code[begin] + pairs[code[begin]])}]").finditer(code, begin):
        depth += 1 if match[0] == code[begin] else -1
        if depth == 0:
            return match.end()
    return len(code)


def plain(head):
    """A head without the arguments of templates."""
    head, before = head.replace("->", "  ").replace("operator<", "operator_").replace("operator>", "operator_"), None
    while head != before:
        head, before = re.sub(r"<[^<>(){};]*(\([^()]*\)[^<>(){};]*)*>", "", head), head
    return head


def scope_of(head):
    """The name that a namespace or a class gives to what is in it; None for another head."""
    match = re.match(r"\s*(?:inline\s+)?namespace\s*([\w:]*)\s*$", head)
    match = match or re.match(r"\s*extern\s*()$", head)
    match = match or re.match(r"\s*(?:template\s*)?(?:class|struct|union)\s+(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)?([\w:]+)"
                              r"\s*(?:final\s*)?(?::(?!:)[^(]*)?$", head)
    return match and match[1]


def name_of(head):
    """The name of the function that a head begins; None where it begins none."""
    for match in re.finditer(r"([\w:~]+|\boperator[^\w\s(]*(?:\(\))?)\s*\(", head):
        if "=" in head[:match.start()] and "operator" not in head[:match.end()]:
            return None
        if not re.match(r"__\w+|explicit|noexcept|requires|alignas|decltype|if|for|while|switch", match[1]):
            return match[1]
    return None


def functions_of_cpp(file, text):
    code, stack, start, position = masked(text), [], 0, 0
    bracket = re.compile(r"[{};]")
    while match := bracket.search(code, position):
        position = match.end()
        if match[0] == "{":
            head = re.sub(r"\b(public|private|protected)\s*:(?!:)", "", plain(code[start:match.start()]))
            scope = scope_of(head)
            if scope is not None:
                stack.append(scope)
            else:
                position = closing(code, match.start())
                if head.count("(") > head.count(")"):
                    continue  # an argument
                if re.search(r"\)\s*(noexcept\s*)?:(?!:)", head) and re.search(r"[\w>]\s*$", code[start:match.start()]):
                    continue  # a member that the constructor makes
                name = name_of(head)
                if name:
                    yield Function("::".join([*filter(None, stack), name]), file, text, code, match.end(), position - 1)
        elif match[0] == "}" and stack:
            stack.pop()
        start = position


def functions_of_python(file, text):
    """Each function, as module.class.function."""
    starts, code = line_starts(text), masked(text, python=True)
    encoded = [line.encode() for line in text.splitlines(keepends=True)]

    def at(line, column):
        return starts[line - 1] + len(encoded[line - 1][:column].decode())

    def walk(node, names):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, [*names, child.name])
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first, last = child.body[0], child.body[-1]
                yield Function(".".join([*names, child.name]), file, text, code, at(first.lineno, first.col_offset),
                               at(last.end_lineno, last.end_col_offset))
    return walk(ast.parse(text), [pathlib.PurePath(file).stem])


def functions(file, text):
    """All definitions of a source."""
    return list((functions_of_python if file.endswith(".py") else functions_of_cpp)(file, text))


def find(name, sources):
    """The definitions of a name, in the order of files and lines. sources: {file: text}"""
    word = re.compile(rf"\b{re.escape(re.split('::|[.]', name)[-1].lstrip('~'))}\b")
    return [function for file in sorted(sources) if word.search(sources[file])
            for function in functions(file, sources[file]) if function.name == name]


# --- operators: each gives (begin, end, wrong) -----------------------------------------------------------------------

PRECEDENCE = {"*": 5, "/": 5, "%": 5, "+": 4, "-": 4, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "&&": 2, "and": 2,
              "||": 1, "or": 1}
BINARY = re.compile(r"(?<=\s)(<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%&|]?=|[-+*/%<>?:]|and|or|if|else|return|in|not in|is)(?=\s)|"
                    r"[(){}\[\],;]")
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*"}
LOGIC = {"&&": "||", "||": "&&", "and": "or", "or": "and"}


def swapped(f, table):
    for match in BINARY.finditer(f.code, f.begin, f.end):
        if match[0] in table:
            yield match.start(), match.end(), table[match[0]]


def swap_comparison(f, only):
    return (site for site in swapped(f, COMPARISONS) if only in (None, f.code[site[0]:site[1]]))


def swap_arithmetic(f, only):
    return (site for site in swapped(f, ARITHMETIC) if only in (None, f.code[site[0]:site[1]]))


def swap_logic(f, only):
    return (site for site in swapped(f, LOGIC) if only in (None, f.code[site[0]:site[1]]))


def swap_extreme(f, _):
    for match in re.finditer(r"\b(?:std::|(?<![.\w]))(min|max)(?=[<(])", f.code[f.begin:f.end]):
        yield f.begin + match.start(1), f.begin + match.end(1), {"min": "max", "max": "min"}[match[1]]


def off_by_one(f, _):
    for match in re.finditer(r"(?<=[\w)\]] [-+] )1(?![\w.'])", f.code[f.begin:f.end]):
        yield f.begin + match.start(), f.begin + match.end(), "0"


def drop_operand(f, only):
    """Without the right operand of a sum, product or condition; `drop-operand NAME` where NAME begins it."""
    for match in BINARY.finditer(f.code, f.begin, f.end):
        if PRECEDENCE.get(match[0], 3) == 3:
            continue
        depth, end = 0, f.end
        for other in BINARY.finditer(f.code, match.end(), f.end):
            depth += (other[0] in "([{") - (other[0] in ")]}")
            lower = PRECEDENCE.get(other[0], 0) <= PRECEDENCE[match[0]]
            if depth < 0 or depth == 0 and other[0] not in ")]}([{" and lower:
                end = other.start()
                break
        if only is None or re.match(rf"\s*[\w:.>\-(!*&]*?\b{re.escape(only)}\b", f.code[match.end():end]):
            yield match.start(), len(f.code[:end].rstrip()), ""


def conditions(f):
    if f.python:
        begin = f.text.count("\n", 0, f.begin) + 1
        starts = line_starts(f.text)
        for node in ast.walk(ast.parse(f.text)):
            if isinstance(node, (ast.If, ast.IfExp)) and begin <= node.lineno:
                test = node.test
                where = starts[test.lineno - 1] + test.col_offset, starts[test.end_lineno - 1] + test.end_col_offset
                if f.begin <= where[0] and where[1] <= f.end:
                    yield where
        return
    for match in re.finditer(r"\bif (?:constexpr )?\(", f.code[f.begin:f.end]):
        end = closing(f.code, f.begin + match.end() - 1)
        condition = f.code[f.begin + match.end():end - 1]
        if ";" not in condition and not re.search(r"[^=!<>]=[^=]", condition) and "constexpr" not in match[0]:
            yield f.begin + match.end(), end - 1


def negate_condition(f, only):
    for begin, end in conditions(f):
        if only is None or re.search(rf"\b{re.escape(only)}\b", f.code[begin:end]):
            yield begin, end, f"{'not ' if f.python else '!'}({f.text[begin:end]})"


def never(f, only):
    """A condition that is never met."""
    for begin, end in conditions(f):
        if only is None or re.search(rf"\b{re.escape(only)}\b", f.code[begin:end]):
            yield begin, end, "False" if f.python else "false"


HEADS = re.compile(r"\s*(?:else\b|case\b(?:[^:;]|::)*:(?!:)|default\s*:|do\b|(?:if|for|while|switch)\s*(?:constexpr\s*)?(?=\())")
DECLARES = re.compile(r"(?:const|auto|static|constexpr|using|typedef|return|break|continue|goto|delete|co_\w+|typename|struct)\b|"
                      r"(?!throw\b)[\w:]+(?:<.*>)?(?:::\w+)?[&*\s]+[&*]*\w+\s*(?:=|\(|\{|\[|,|$)", re.DOTALL)


def statements(f):
    """(begin, end) of each that is no declaration and hands nothing back; of lambdas, too."""
    if f.python:
        starts = line_starts(f.text)
        for node in ast.walk(ast.parse(f.text)):
            if isinstance(node, (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue)) and not (
                    isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.Yield))):
                begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
                if f.begin <= begin and end <= f.end:
                    yield begin, end
        return
    stack = [[0, f.begin]]
    for match in re.compile(r"[(){};\[\]]").finditer(f.code, f.begin, f.end):
        top = stack[-1]
        if match[0] in "([":
            top[0] += 1
        elif match[0] in ")]":
            top[0] -= 1
        elif match[0] == "{":
            stack.append([0, match.end()])
        elif match[0] == "}":
            stack.pop()
            if stack[-1][0] == 0 and not re.match(r"\s*[;,).]", f.code[match.end():]):
                stack[-1][1] = match.end()
        elif top[0] == 0:
            begin, top[1] = top[1], match.end()
            while head := HEADS.match(f.code, begin, match.start()):
                begin = closing(f.code, head.end()) if f.code[head.end():head.end() + 1] == "(" else head.end()
            begin += len(f.code[begin:match.end()]) - len(f.code[begin:match.end()].lstrip())
            said = f.code[begin:match.start()]
            if re.search(r"\w", said) and not DECLARES.match(said):
                yield begin, match.end()


def drop_statement(f, only):
    """`drop-statement NAME`: one whose text begins with NAME, after whose it is."""
    for begin, end in sorted(statements(f)):
        if only is None or re.match(rf"(?:\(void\))?[\w.:>\-\[\]()*+]*?\b{re.escape(only)}\b", f.code[begin:end]):
            yield begin, end, "pass" if f.python else ";"


def drop_call(f, only):
    """A statement that is a call, of NAME."""
    for begin, end in sorted(statements(f)):
        if re.match(rf"[\w.:>\-\[\]()*]*?\b{re.escape(only) if only else '[a-z_0-9]+'}\s*(<[^;]*>)?\(", f.code[begin:end]):
            yield begin, end, "pass" if f.python else ";"


def swap_arguments(f, only):
    """The first two arguments of a call, of NAME."""
    for match in re.finditer(rf"\b{re.escape(only) if only else '(?!if|for|while|switch|return|catch)[a-z_]+'}\(", f.code[f.begin:f.end]):
        begin = f.begin + match.end()
        end = closing(f.code, begin - 1) - 1
        cuts, depth = [], 0
        for token in re.compile(r"[(){}\[\],]").finditer(f.code, begin, end):
            depth += (token[0] in "([{") - (token[0] in ")]}")
            if token[0] == "," and depth == 0:
                cuts.append(token.start())
        if cuts:
            second = cuts[1] if len(cuts) > 1 else end
            one, other = f.text[begin:cuts[0]], f.text[cuts[0] + 1:second].strip()
            if one.strip() != other and not re.search(r'[="{]', other + one):
                yield begin, second, f"{other}, {one}"


def replace(f, change):
    """`replace A→B`: a name or a constant by another."""
    right, wrong = change.split("→")
    for match in re.finditer(rf"(?<![\w.]){re.escape(right)}(?![\w'])|(?<=[.>:]){re.escape(right)}(?![\w'])", f.code[f.begin:f.end]):
        yield f.begin + match.start(), f.begin + match.end(), wrong


def replace_constant(f, change):
    if change is not None:
        yield from replace(f, change)
        return
    table = {"true": "false", "false": "true", "True": "False", "False": "True", "0": "1", "2": "3", "0.5": "1.0"}
    for match in re.finditer(r"(?<![\w.'])(true|false|True|False|0|2|0\.5)(?![\w.'])", f.code[f.begin:f.end]):
        yield f.begin + match.start(), f.begin + match.end(), table[match[1]]


OPERATORS = {
    "swap-comparison": swap_comparison, "swap-arithmetic": swap_arithmetic, "swap-logic": swap_logic,
    "swap-extreme": swap_extreme, "off-by-one": off_by_one, "drop-operand": drop_operand,
    "negate-condition": negate_condition, "never": never, "drop-statement": drop_statement, "drop-call": drop_call,
    "swap-arguments": swap_arguments, "replace": replace, "replace-constant": replace_constant,
}
# Operators that need no name, for a mutator. Calls are dropped as statements; two arguments rarely have one type.
ALONE = sorted(set(OPERATORS) - {"replace", "drop-call", "never", "swap-arguments"})


def sites(function, operator):
    """Where `operator`, with the name that it needs after a space, applies. Throws KeyError for one that there is not."""
    name, _, argument = operator.partition(" ")
    found = OPERATORS[name](function, argument or None)
    return [Site(function, operator, *where) for where in sorted(set(found))]


# --- planting --------------------------------------------------------------------------------------------------------

def wrong_text(site):
    return site.function.text[:site.begin] + site.wrong + site.function.text[site.end:]


def plant(text, mutants):
    """A source with its mutants, {number: site}, to choose among, and {number: (first, last line)} of each in C++."""
    by_function = collections.defaultdict(dict)
    for number, site in mutants.items():
        by_function[site.function.begin, site.function.end][number] = site
    if next(iter(mutants.values())).function.python:
        return planted_python(text, mutants), {}
    pieces, position, lines, line = ['#include "frugal_fault.h"\n'], 0, {}, 2
    for (begin, end), here in sorted(by_function.items()):
        pieces.append(text[position:begin] + "\n")
        line += pieces[-1].count("\n")
        for number, site in here.items():
            body = wrong_text(site)[begin:end + len(site.wrong) - (site.end - site.begin)]
            pieces.append(f"if (frugal_fault({number})) {{{body}\n}} else\n")
            lines[number] = line, line + pieces[-1].count("\n") - 1
            line += pieces[-1].count("\n")
        pieces.append(f"{{{text[begin:end]}\n}}")
        line += pieces[-1].count("\n")
        position = end
    return "".join(pieces) + text[position:], lines


def planted_python(text, mutants):
    """Python, without its comments. A wrong body stands before the right one."""
    module = ast.parse(text)
    def same(tree, function):
        last = function.name.rsplit(".", 1)[-1]
        line = text.count("\n", 0, function.begin) + 1
        return max((node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                    and node.name == last and node.lineno <= line), key=lambda node: node.lineno)
    for number, site in mutants.items():
        wrong, right = same(ast.parse(wrong_text(site)), site.function), same(module, site.function)
        right.body = [ast.If(ast.parse(f"_fault({number})", mode="eval").body, wrong.body, right.body)]
    planted = ast.unparse(ast.fix_missing_locations(module))
    shebang = text.splitlines(keepends=True)[0] if text.startswith("#!") else ""
    return shebang + with_helper(planted)


def with_helper(text):
    """Python that can ask for its fault: after the module's doc string and what it has from the future."""
    line = 0
    for statement in ast.parse(text).body:
        string = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not string and getattr(statement, "module", None) != "__future__":
            break
        line = statement.end_lineno
    lines = text.splitlines(keepends=True)
    return "".join(lines[:line]) + ("" if not line or lines[line - 1].endswith("\n") else "\n") + PYTHON + "".join(lines[line:])
