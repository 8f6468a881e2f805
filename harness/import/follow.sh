# What bash runs before a script that frugal follows (shell_script.cpp), which sets frugal_given, frugal_own and
# frugal_all_true before it. Nothing of the script starts a program: what it would start is said on descriptor 50,
# and prints "$(...)". A name that is not set is "${NAME}" wherever a command other than a condition uses it.
enable -n compgen complete compopt history fc bind suspend disown enable 2>&51
unset HOSTNAME OLDPWD
PWD=.
shopt -s extdebug
frugal_outer=() frugal_marked=() frugal_command= frugal_line=0 frugal_exits=0 frugal_depth=0
frugal_own_functions='command_not_found_handle|exec|exit|source|.|seq|basename|dirname|expr|cat|pwd|cd|pushd|popd|kill|ulimit|trap'
frugal_own_functions+='|*/*|frugal_!(inner)'
declare -A frugal_taken=()

# KIND TEXT...: a line for each, with the process that says it: others may write between two of them.
frugal_say() {
  local frugal_kind=$1 frugal_text
  shift
  for frugal_text; do
    frugal_text=${frugal_text//$'\n'/$'\1'}
    while ((${#frugal_text} > 800)); do
      printf '%s +%s\n' "$BASHPID" "${frugal_text:0:800}" >&50
      frugal_text=${frugal_text:800}
    done
    printf '%s %s%s\n' "$BASHPID" "$frugal_kind" "$frugal_text" >&50
  done
}

# TEXT: the names behind its dollars; those that have a default of their own begin with "-".
frugal_find() {
  local frugal_rest=$1 frugal_name frugal_after frugal_brace
  frugal_found=()
  while [[ $frugal_rest == *\$* ]]; do
    frugal_rest=${frugal_rest#*\$}
    frugal_brace=${frugal_rest:0:1}
    frugal_rest=${frugal_rest#\{}
    frugal_name=${frugal_rest%%[!A-Za-z0-9_]*}
    frugal_after=${frugal_rest#"$frugal_name"}
    [[ $frugal_after != \[* ]] || frugal_after=${frugal_after#*\]}
    [[ $frugal_brace == \{ ]] || frugal_after=
    [[ $frugal_name == [A-Za-z_]* && $frugal_name != @(BASH*|FUNCNAME|_) ]] || continue
    case $frugal_after in
      -*|:-*|=*|:=*|+*|:+*) frugal_name=-$frugal_name ;;
    esac
    frugal_found+=("$frugal_name")
  done
}

# NAME: whether neither the script nor what is given sets it.
frugal_unset() {
  [[ $frugal_own != *" $1 "* ]] && ! declare -p "$1" >&51 2>&1
}

# NAME: whether its value is not known.
frugal_open() {
  [[ ${!1-} == *'${'* || ${!1-} == *'$(...)'* ]]
}

# COMMAND: the name that it assigns, in frugal_to.
frugal_assigned() {
  local frugal_text=$1 frugal_rest
  case $frugal_text in
    export\ *|local\ *|declare\ *|readonly\ *|typeset\ *) frugal_text=${frugal_text#* } ;;
  esac
  while [[ $frugal_text == -*\ * ]]; do frugal_text=${frugal_text#* }; done
  frugal_to=${frugal_text%%[!A-Za-z0-9_]*}
  frugal_rest=${frugal_text#"$frugal_to"}
  [[ $frugal_to == [A-Za-z_]* && ($frugal_rest == =* || $frugal_rest == +=*) ]] || frugal_to=
}

# After a command: names that are not set are not set again; what a program would print has a name.
frugal_settle() {
  local frugal_name frugal_to frugal_value
  frugal_assigned "$frugal_command"
  for frugal_name in "${frugal_marked[@]}"; do
    [[ $frugal_name == "$frugal_to" || ${!frugal_name-} != "\${$frugal_name}" ]] || unset -v "$frugal_name"
  done
  frugal_marked=()
  if [[ $frugal_to && ${!frugal_to-} == *'$(...)'* && ${!frugal_to-} != *[[:space:]]* ]]; then
    frugal_value=${!frugal_to}
    printf -v "$frugal_to" '%s' "${frugal_value//'$(...)'/"\${$frugal_to}"}"
  fi
}

frugal_give() {
  local frugal_name frugal_kind
  for frugal_name in "${!frugal_given[@]}"; do
    eval "frugal_kind=\${$frugal_name@a}"
    case $frugal_kind in
      *[aA]*) eval "$frugal_name=(\"\${frugal_given[\$frugal_name]}\")" ;;
      *) [[ ${!frugal_name+set} && ${!frugal_name} == "${frugal_given[$frugal_name]}" ]] ||
           printf -v "$frugal_name" '%s' "${frugal_given[$frugal_name]}" ;;
    esac
  done
}

# TEXT: fails where the machine decides whether the condition holds, which is then taken to.
frugal_condition() {
  local frugal_name frugal_untold=
  case ${1//'$(('/} in
    *' -'[bcdefghkLprsSuwxOGN]' '*|*' -nt '*|*' -ot '*|*' -ef '*|*'$('*|*'`'*) frugal_untold=1 ;;
  esac
  frugal_find "$1"
  for frugal_name in "${frugal_found[@]#-}"; do
    if frugal_open "$frugal_name"; then
      frugal_untold=1
    elif frugal_unset "$frugal_name"; then
      frugal_say a "$frugal_name"
    fi
  done
  [[ $frugal_untold ]] || return 0
  frugal_say u "$frugal_line $1"
  [[ ! $frugal_all_true || ${frugal_taken[$frugal_line]-} ]] && return 0
  frugal_taken[$frugal_line]=1
  return 1
}

# TEXT: frugal_instead has names in place of what cannot be calculated, because they are not known.
frugal_calculate() {
  local frugal_before= frugal_rest=$1 frugal_inside frugal_names frugal_name frugal_text frugal_other= frugal_ends
  while [[ $frugal_rest == *'$(('*'))'* ]]; do
    frugal_before+=${frugal_rest%%'$(('*}
    frugal_rest=${frugal_rest#*'$(('}
    frugal_inside=
    while
      frugal_inside+=${frugal_rest%%'))'*}
      frugal_rest=${frugal_rest#*'))'}
      while frugal_text=${frugal_inside//[!(]/} frugal_ends=${frugal_inside//[!)]/}
        [[ ${#frugal_text} -gt ${#frugal_ends} && $frugal_rest == ')'* ]]
      do frugal_inside+=')' frugal_rest=${frugal_rest:1}; done
      [[ ${#frugal_text} -gt ${#frugal_ends} && $frugal_rest == *'))'* ]]
    do frugal_inside+='))'; done
    frugal_names= frugal_text=$frugal_inside
    while [[ $frugal_text == *[A-Za-z_]* ]]; do
      frugal_text=${frugal_text#"${frugal_text%%[A-Za-z0-9_]*}"}
      frugal_name=${frugal_text%%[!A-Za-z0-9_]*}
      frugal_text=${frugal_text#"$frugal_name"}
      [[ $frugal_name == [A-Za-z_]* ]] || continue
      if frugal_open "$frugal_name" || frugal_unset "$frugal_name"; then frugal_names+="\${$frugal_name}"; fi
    done
    frugal_before+=${frugal_names:-"\$(($frugal_inside))"}
    frugal_other+=$frugal_names
  done
  [[ ! $frugal_other ]] || frugal_instead=$frugal_before$frugal_rest
}

# COMMAND LINE: before each command of the script; fails where that is not to be run.
frugal_debug() {
  [[ $1 != frugal_* && ${FUNCNAME[1]-} != @($frugal_own_functions) ]] || return 0
  frugal_settle
  frugal_command=$1
  ((frugal_depth)) || frugal_line=$2
  frugal_give
  case $1 in
    '[ '*|'[[ '*|'test '*|'(('*|'case '*)
      frugal_condition "$1"
      return ;;
    *'$(('*) frugal_calculate "$1" ;;
  esac
  local frugal_name
  frugal_find "${frugal_instead:-$1}"
  for frugal_name in "${frugal_found[@]}"; do
    if [[ $frugal_name != -* ]] && frugal_unset "$frugal_name"; then
      printf -v "$frugal_name" '%s' "\${$frugal_name}"
      frugal_marked+=("$frugal_name")
    fi
  done
  [[ ! $frugal_instead ]]
}

# TEXT NAME ARGUMENT...: as of bash -c.
frugal_inner() {
  local frugal_text=$1
  shift
  (($# == 0)) || shift
  eval "$frugal_text"
}

# PROGRAM ARGUMENT...: what the script would start. A text for another shell is followed.
frugal_run() {
  builtin trap - DEBUG
  local frugal_i frugal_j frugal_text
  ((++frugal_depth < 9)) || return 0
  if [[ $1 == @(ssh|pdsh) && ${!#} == *\ * ]]; then
    builtin trap "$frugal_trap" DEBUG
    frugal_inner "${!#}"
    return 0
  fi
  for frugal_text; do
    [[ $frugal_text != *.@(sh|slurm|sbatch) ]] || frugal_say n "$frugal_line $frugal_text, another script, which is not followed"
  done
  for ((frugal_i = 1; frugal_i <= $#; ++frugal_i)); do
    if [[ ${!frugal_i} == sbatch && $* != *.@(sh|slurm|sbatch)* ]]; then
      IFS= read -r -d '' frugal_text
      builtin trap "$frugal_trap" DEBUG
      frugal_inner "$frugal_text"
      return 0
    fi
    [[ ${!frugal_i} == @(bash|sh|*/bash|*/sh) ]] || continue
    for ((frugal_j = frugal_i + 1; frugal_j <= $#; ++frugal_j)); do
      case ${!frugal_j} in
        --*) ;;
        -*c)
          frugal_outer+=("${@:1:frugal_i-1}")
          builtin trap "$frugal_trap" DEBUG
          frugal_inner "${@:frugal_j+1}"
          return 0 ;;
        -o|-O) ((++frugal_j)) ;;
        [!-+]*) continue 2 ;;
      esac
    done
    IFS= read -r -d '' frugal_text
    frugal_outer+=("${@:1:frugal_i-1}")
    builtin trap "$frugal_trap" DEBUG
    frugal_inner "$frugal_text"
    return 0
  done
  frugal_say w "${frugal_outer[@]}" "$@"
  frugal_say c "$frugal_line"
  case $1 in
    mkdir|rm|touch|cp|mv|ln|chmod|sleep|module|conda) ;;
    *) printf '$(...)\n' ;;
  esac
  return 0
}

frugal_exit() {
  if [[ $1 == 0 ]] || ((++frugal_exits > 50)); then builtin exit "$1"; fi
  frugal_say n "$frugal_line exit $1, which is passed over"
  return 0
}

frugal_exec() {
  while [[ ${1-} == -[cl]* ]]; do shift; done
  [[ ${1-} != -a ]] || shift 2
  (($# == 0)) && return 0
  (frugal_run "$@")
  builtin exit 0
}

frugal_source() {
  frugal_say n "$frugal_line $1, another script, which is not followed"
  return 0
}

frugal_seq() {
  local frugal_text
  local -i frugal_i frugal_first=1 frugal_step=1 frugal_last
  for frugal_text; do
    [[ $frugal_text =~ ^-?[0-9]+$ ]] || { printf '$(...)\n'; return 0; }
  done
  case $# in
    1) frugal_last=$1 ;;
    2) frugal_first=$1 frugal_last=$2 ;;
    3) frugal_first=$1 frugal_step=$2 frugal_last=$3 ;;
    *) return 1 ;;
  esac
  ((frugal_step != 0)) || return 1
  for ((frugal_i = frugal_first; frugal_step > 0 ? frugal_i <= frugal_last : frugal_i >= frugal_last;
        frugal_i += frugal_step)); do
    printf '%s\n' "$frugal_i"
  done
}

frugal_basename() {
  local frugal_text=${1%/}
  frugal_text=${frugal_text##*/}
  printf '%s\n' "${frugal_text%"${2-}"}"
}

frugal_dirname() {
  [[ $1 == */* ]] && printf '%s\n' "${1%/*}" || printf '.\n'
}

frugal_expr() {
  if [[ "$*" =~ ^[-+*/%\ 0-9]+$ ]]; then printf '%s\n' "$(($*))"; else printf '$(...)\n'; fi
}

frugal_cat() {
  local frugal_text
  if (($#)) && [[ $* != - ]]; then
    printf '$(...)\n'
    return 0
  fi
  while IFS= read -r frugal_text || [[ $frugal_text ]]; do printf '%s\n' "$frugal_text"; done
}

frugal_end() {
  builtin trap - DEBUG
  local IFS=' ' frugal_name
  frugal_settle
  frugal_give
  for frugal_name in $frugal_own; do
    declare -p "$frugal_name" >&51 2>&1 || continue
    frugal_say v "$frugal_name"
    eval "frugal_say e \"\${$frugal_name[@]}\""
  done
}

command_not_found_handle() { frugal_run "$@"; }
exec() { frugal_exec "$@"; }
exit() { frugal_exit "${1-$?}"; }
source() { frugal_source "$@"; }
function . { frugal_source "$@"; }
seq() { frugal_seq "$@"; }
basename() { frugal_basename "$@"; }
dirname() { frugal_dirname "$@"; }
expr() { frugal_expr "$@"; }
cat() { frugal_cat "$@"; }
pwd() { printf '.\n'; }
frugal_nothing() { :; }
cd() { frugal_nothing; }
pushd() { frugal_nothing; }
popd() { frugal_nothing; }
kill() { frugal_nothing; }
ulimit() { frugal_nothing; }
trap() { frugal_nothing; }

builtin trap frugal_end EXIT
frugal_trap='set +euvx; frugal_instead=; frugal_debug "$BASH_COMMAND" "$LINENO" ||
  { [[ ! $frugal_instead ]] || eval "$frugal_instead"; false; }'
builtin trap "$frugal_trap" DEBUG
