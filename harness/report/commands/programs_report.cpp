#include "harness/report/commands/programs_report.h"

#include <fmt/format.h>

#include "engine/program/find_program.h"

namespace frugal::harness {
namespace {

constexpr const char* introduction = R"(# Programs

<!-- Written by `frugal docs`; a test compares. -->

A paper measures a program, not an idea. Where the program kept, copied or sent more than the technique needs, frugal,
which does not, has other numbers. A **program** makes such a difference executable. It is a list of **behaviours**,
each a thing that the engine can be told to do besides:

```
frugal measure --model llama3-8b --on virtual:a100-80gb --precision pure --recompute full --program hugging-face-2024
frugal longest --model llama3-8b --on virtual:a100-80gb --precision pure --recompute full --mlp-chunks paper \
               --head-chunks paper --step-in-backward --program hugging-face-2024+mini-s
frugal reproduce mst2024/table3            in columns of their own: the paper, its program, frugal
frugal explain mst2024/table3              a difference as a sum of behaviours, with what is left
```

What a program keeps is really kept: its bytes are in the ledger, and on a processor or a GPU in memory. What it computes
is the same: in float32 losses and weights have the same bits, whatever behaviours there are; in bf16 they differ where a
program rounds logits or sums in bf16.

`--program` takes programs, files like those of `programs/`, and behaviours, with `+` between them. `~` takes behaviours
out again, as in `megatron-lm-2022~causal-masks`. At the end, `:memory`, `:time` and `:messages` leave those that change
one of these first of all, and `:real` those that a device that computes can have, too. Without it a run has none: that is
`frugal`. A configuration that cannot have a behaviour is refused.

`frugal explain` runs an artifact with no behaviour, with the first, the first two and so on, with each alone, and with all
but each. *Adds* is what a behaviour adds to those before it, so the terms are a sum. *As the last* is what it adds to all
others. Where the two differ, behaviours depend on each other: a peak is a maximum. `plots/explain.py` draws what it says
with `--format json`.

Each behaviour of a program is **documented** by a source or by its paper, **counted** in what the program gave, or
**supposed**.
)";

std::string row(std::initializer_list<std::string_view> cells) {
  std::string text = "|";
  for (const std::string_view cell : cells) text += fmt::format(" {} |", cell);
  return text + "\n";
}

std::string of_behaviours() {
  std::string text =
      "\n## Behaviours\n\n| behaviour | changes | what it does | devices |\n|---|---|---|---|\n";
  for (const Behaviour& behaviour : behaviours())
    text += row({fmt::format("`{}`", behaviour.name), name_of(behaviour.changes), behaviour.does,
                 behaviour.real ? "all" : "virtual"});
  return text;
}

std::string of_program(const std::string& name) {
  const ProgramFile file = find_program_file(name);
  std::string text =
      fmt::format("\n## {}\n\n{}.\n\n| behaviour | known as | evidence |\n|---|---|---|\n",
                  file.name, file.description);
  for (const KnownBehaviour& known : file.behaviours)
    text +=
        row({fmt::format("`{}`", known.behaviour->name), name_of(known.status), known.evidence});
  return text;
}

}  // namespace

std::string programs_markdown() {
  std::string text = introduction + of_behaviours();
  for (const std::string& name : program_names()) text += of_program(name);
  return text;
}

}  // namespace frugal::harness
