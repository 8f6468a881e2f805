#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/namespace.h"

/// Descriptions of options. A struct of options describes each member once, in its describe();
/// flags, JSON, schemas, checks and random draws walk the description.
namespace frugal::engine {

/// A member's value: an enumeration as its name, a list or a set as its text. Nothing: an optional
/// member that is not set.
using FieldValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// Values that a member may have.
namespace allowed {
struct OnOff {};
struct Number {
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
  std::string zero = {};     ///< stands for 0 in text
  std::string meaning = {};  ///< of 0, where that is no number of anything
  bool tokens = false;       ///< text has k and M for 1024 and 1024^2
};
/// Real number in [low, high).
struct Real {
  double low, high;
};
struct OneOf {
  std::vector<std::string> names;
};
/// Some of these, with + between them.
struct SomeOf {
  std::vector<std::string> names;
};
struct Text {
  std::string placeholder;
  std::string words = "a text that is not empty";
  std::function<bool(const std::string&)> reads = [](const std::string& text) {
    return !text.empty();
  };
  bool may_be_empty = false;
  std::string pattern = {};  ///< of a JSON Schema
};
}  // namespace allowed
using Allowed = std::variant<allowed::OnOff, allowed::Number, allowed::Real, allowed::OneOf,
                             allowed::SomeOf, allowed::Text>;

/// Sections of help. A command takes all fields of a section or none.
enum class Section : uint8_t {
  model,         ///< all of a model but its sequence length
  length,        ///< the sequence length
  place,         ///< processor, GPUs or machine
  lone_rank,     ///< one rank without its peers
  layout,        ///< how ranks share the work
  own_schedule,  ///< a schedule in a file
  memory,        ///< what trades memory for something else
  training,      ///< types, batch and optimizer
  steps,         ///< how many, and the text that is trained on
  evaluation     ///< what is asked beside training, and weights to begin with
};

/// Text that names a file: perhaps, "NAME|FILE"; or behind a colon, "virtual:FILE".
enum class NamesFile : uint8_t { no, perhaps, behind_colon, always };

/// Description of a member, whatever struct it is of.
struct Described {
  std::string key = {};   ///< in JSON: "tensor_parallel_size"
  std::string flag = {};  ///< "--tensor-parallel"; empty: JSON only
  std::string help = {};
  Allowed allowed = {};
  Section section = Section::model;
  std::string after = {};  ///< key of the field that it follows in help, where that is another
  bool always = false;     ///< JSON has it even where it is as by default
  bool required = false;   ///< JSON of a whole configuration must have it
  bool depends = false;    ///< its default depends on other fields; `help` says how
  bool list = true;        ///< several values make a sweep
  NamesFile file = NamesFile::no;
  std::string needed = {};             ///< what Field::applies asks for, in words
  std::vector<FieldValue> drawn = {};  ///< values that random draws try, the frequent ones repeated

  /// "it must be from 1 to 65536, or 0 for all".
  std::string range() const;
};

/// Description of a member of T. The functions that return the field change and pass it on.
template <class T>
struct Field : Described {
  std::function<FieldValue(const T&)> get;
  std::function<void(T&, const FieldValue&)> set;
  std::function<bool(const T&)> is_usual;    ///< as it is by default
  std::function<bool(const T&)> is_allowed;  ///< empty: whatever its type holds
  std::function<bool(const T&)> applies;     ///< empty: always
  std::function<bool(const T&)> is_written;  ///< whether JSON has it; empty: where not is_usual

  Field() = default;
  /// Description of this member for a struct that has T as its base.
  template <class Base>
  requires std::derived_from<T, Base> &&(!std::same_as<T, Base>)explicit Field(const Field<Base>& f)
      : Described(f), get(f.get), set(f.set), is_usual(f.is_usual) {
    if (f.is_allowed) is_allowed = f.is_allowed;
    if (f.applies) applies = f.applies;
    if (f.is_written) is_written = f.is_written;
  }

  Field& flagged(std::string text) { return with(flag, std::move(text)); }
  Field& in(Section where) { return with(section, where); }
  Field& behind(std::string other) { return with(after, std::move(other)); }
  Field& written() { return with(always, true); }
  Field& must_be_there() { return with(required, true).written(); }
  Field& usually_follows() { return with(depends, true); }
  Field& named_file(NamesFile kind) { return with(file, kind); }
  Field& one_value() { return with(list, false); }
  Field& draws(std::vector<FieldValue> values) { return with(drawn, std::move(values)); }
  /// 0 is `word` in text and means `meaning`.
  Field& zero(std::string word, std::string meaning) {
    auto& number = std::get<allowed::Number>(allowed);
    number.zero = std::move(word);
    number.meaning = std::move(meaning);
    return *this;
  }
  /// Refused where it is not as by default and `condition` does not hold: `words`.
  Field& needs(std::function<bool(const T&)> condition, std::string words) {
    applies = std::move(condition);
    return with(needed, std::move(words));
  }
  Field& written_where(std::function<bool(const T&)> condition) {
    return with(is_written, std::move(condition));
  }

 private:
  template <class M, class V>
  Field& with(M& member, V value) {
    member = std::move(value);
    return *this;
  }
};

/// Descriptions of T's members, in the order of help.
template <class T>
class Fields {
 public:
  /// Section of the members that follow.
  void section(Section section) { section_ = section; }

  template <class M>  // bool, or an optional one
  Field<T>& on_off(std::string key, M T::*member, std::string help) {
    return add(std::move(key), allowed::OnOff{}, member, std::move(help));
  }
  template <std::integral I>
  Field<T>& number(std::string key, I T::*member, allowed::Number range, std::string help) {
    Field<T>& field = add(std::move(key), range, member, std::move(help));
    field.is_allowed = [member, range](const T& of) {
      return std::cmp_greater_equal(of.*member, range.low) &&
             std::cmp_less_equal(of.*member, range.high);
    };
    return field;
  }
  Field<T>& real(std::string key, std::optional<double> T::*member, allowed::Real range,
                 std::string help) {
    return add(std::move(key), range, member, std::move(help));
  }
  Field<T>& real(std::string key, double T::*member, allowed::Real range, std::string help) {
    Field<T>& field = add(std::move(key), range, member, std::move(help));
    field.is_allowed = [member, range](const T& of) {
      return of.*member >= range.low && of.*member < range.high;
    };
    return field;
  }
  template <Enumeration E>
  Field<T>& choice(std::string key, E T::*member, std::string help) {
    return add(std::move(key), allowed::OneOf{names_of(E()).texts()}, member, std::move(help));
  }
  template <Enumeration E>
  Field<T>& choice(std::string key, std::optional<E> T::*member, std::string help) {
    return add(std::move(key), allowed::OneOf{names_of(E()).texts()}, member, std::move(help));
  }
  Field<T>& text(std::string key, std::string T::*member, allowed::Text text, std::string help) {
    return add(std::move(key), std::move(text), member, std::move(help)).one_value();
  }
  /// A member with a text of its own, which `write` gives and `read` reads.
  template <class M, class Write, class Read>
  Field<T>& own(std::string key, M T::*member, Allowed allowed, Write write, Read read,
                std::string help) {
    Field<T>& field = list_.emplace_back();
    field.key = std::move(key);
    field.flag = flag_of(field.key);
    field.help = std::move(help);
    field.allowed = std::move(allowed);
    field.section = section_;
    field.get = [member, write](const T& of) { return FieldValue(write(of.*member)); };
    field.set = [member, read](T& of, const FieldValue& value) { of.*member = read(value); };
    field.is_usual = [member, usual = T().*member](const T& of) { return of.*member == usual; };
    return field;
  }
  /// All members of a base.
  template <class Base>
  requires std::derived_from<T, Base>
  void base() {
    Fields<Base> fields;
    Base::describe(fields);
    for (const Field<Base>& field : fields.list()) list_.emplace_back(field);
  }

  const std::vector<Field<T>>& list() const { return list_; }

 private:
  /// "--tensor-parallel" of "tensor_parallel".
  static std::string flag_of(std::string key) {
    for (char& c : key)
      if (c == '_') c = '-';
    return "--" + key;
  }
  template <class M>
  static FieldValue value_of(const std::optional<M>& member) {
    return member ? value_of(*member) : FieldValue();
  }
  template <class M>
  static FieldValue value_of(const M& member) {
    if constexpr (Enumeration<M>)
      return std::string(name_of(member));
    else if constexpr (std::integral<M> && !std::same_as<M, bool>)
      return static_cast<int64_t>(member);
    else
      return member;
  }
  template <class M>
  static void read(const FieldValue& value, std::optional<M>& member) {
    read(value, member.emplace());
  }
  template <class M>
  static void read(const FieldValue& value, M& member) {
    if constexpr (Enumeration<M>)
      member = *from_name<M>(std::get<std::string>(value));
    else if constexpr (std::integral<M> && !std::same_as<M, bool>)
      member = static_cast<M>(std::get<int64_t>(value));
    else
      member = std::get<M>(value);
  }
  template <class M>
  Field<T>& add(std::string key, Allowed allowed, M T::*member, std::string help) {
    return own(
        std::move(key), member, std::move(allowed), [](const M& m) { return value_of(m); },
        [](const FieldValue& value) {
          M member;
          read(value, member);
          return member;
        },
        std::move(help));
  }

  std::vector<Field<T>> list_;
  Section section_ = Section::model;
};

/// Fields of T, described once.
template <class T>
const std::vector<Field<T>>& fields_of() {
  static const std::vector<Field<T>> list = [] {
    Fields<T> fields;
    T::describe(fields);
    return fields.list();
  }();
  return list;
}

/// "8", "true", "norm+mlp".
std::string text_of(const FieldValue& value);

[[noreturn]] void refuse_range(const Described& field, const FieldValue& value);
[[noreturn]] void refuse_needed(const Described& field, const FieldValue& value);

/// Throws InputError for a value out of its range, and for one that means nothing because of
/// others.
template <class T>
void check_fields(const T& of) {
  for (const Field<T>& field : fields_of<T>()) {
    if (field.is_allowed && !field.is_allowed(of)) refuse_range(field, field.get(of));
    if (field.applies && !field.is_usual(of) && !field.applies(of))
      refuse_needed(field, field.get(of));
  }
}

/// Hash of the fields that are not as by default, for maps whose keys are options.
struct HashOfFields {
  template <class T>
  size_t operator()(const T& of) const {
    size_t hash = 0, number = 0;
    for (const Field<T>& field : fields_of<T>()) {
      constexpr size_t odd = 0x9e3779b97f4a7c15;  // spreads a small number over all bits
      ++number;
      if (!field.is_usual(of))
        hash ^= odd * (number + odd * std::hash<FieldValue>()(field.get(of)));
    }
    return hash;
  }
};

}  // namespace frugal::engine
