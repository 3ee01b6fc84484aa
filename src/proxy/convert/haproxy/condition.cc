#include "proxy/convert/haproxy/condition.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice::convert::haproxy {
namespace {

using Kind = Predicate::Kind;

// Larger ones are none that anybody writes.
constexpr size_t kMostConjunctions = 64;
constexpr size_t kMostFactors = 32;

bool is_or(std::string_view word) { return word == "or" || word == "||" || word == "OR"; }

// HAProxy's own ACLs.
std::vector<std::string> predefined(std::string_view name) {
  struct Known {
    std::string_view name, criterion;
    std::vector<std::string> values;
  };
  static const std::vector<Known> kKnown = {
      {"FALSE", "always_false", {}},
      {"TRUE", "always_true", {}},
      {"HTTP", "always_true", {}},
      {"WAIT_END", "always_true", {}},
      {"LOCALHOST", "src", {"127.0.0.1/8", "::1"}},
      {"METH_CONNECT", "method", {"CONNECT"}},
      {"METH_DELETE", "method", {"DELETE"}},
      {"METH_GET", "method", {"GET", "HEAD"}},
      {"METH_HEAD", "method", {"HEAD"}},
      {"METH_OPTIONS", "method", {"OPTIONS"}},
      {"METH_POST", "method", {"POST"}},
      {"METH_PUT", "method", {"PUT"}},
      {"METH_TRACE", "method", {"TRACE"}},
  };
  for (const Known& known : kKnown) {
    if (known.name != name) continue;
    std::vector<std::string> words{std::string(known.criterion)};
    words.insert(words.end(), known.values.begin(), known.values.end());
    return words;
  }
  return {};
}

// Either holds.
Predicate either(Predicate a, Predicate b) {
  if (a.kind == Kind::kAlways || b.kind == Kind::kNever) return a;
  if (b.kind == Kind::kAlways || a.kind == Kind::kNever) return b;
  if (a.kind != b.kind || a.kind == Kind::kUnknown) return {};
  a.any.insert(a.any.end(), std::make_move_iterator(b.any.begin()), std::make_move_iterator(b.any.end()));
  return a;
}

// An ACL of this name: one of its lines must hold.
Predicate named_acl(std::string_view name, const Proxy& proxy, const Surroundings& around) {
  Predicate made{.kind = Kind::kNever};
  bool found = false;
  for (const Line* const acl : proxy.all("acl", name)) {
    found = true;
    made = either(std::move(made), parse_criterion({acl->words.begin() + 2, acl->words.end()}, around));
  }
  if (found) return made;
  const std::vector<std::string> words = predefined(name);
  return words.empty() ? Predicate{} : parse_criterion(words, around);
}

class ConditionParser {
 public:
  ConditionParser(const Line& line, const Proxy& proxy, const Surroundings& around)
      : line_(line), proxy_(proxy), around_(around) {}

  Condition parse(size_t from) {
    at_ = from;
    made_.any.emplace_back();
    bool negated = false;
    while (at_ < line_.words.size()) {
      std::string_view word = line_.words[at_++];
      if (is_or(word)) {
        made_.any.emplace_back();
        continue;
      }
      if (word == "and" || word == "AND") continue;
      while (absl::ConsumePrefix(&word, "!")) negated = !negated;
      if (word.empty()) continue;
      add(word, std::exchange(negated, false));
    }
    if (made_.any.size() > kMostConjunctions) made_.unknown = "a condition of so many parts";
    return std::move(made_);
  }

 private:
  void add(std::string_view word, bool negated) {
    std::string text(word);
    Predicate predicate;
    if (word == "{") {
      std::vector<std::string> words;
      while (at_ < line_.words.size() && line_.words[at_] != "}") words.push_back(line_.words[at_++]);
      ++at_;
      text = words.empty() ? "{ }" : words.front();
      predicate = parse_criterion(words, around_);
    } else {
      predicate = named_acl(word, proxy_, around_);
    }
    if (predicate.kind == Kind::kUnknown && made_.unknown.empty()) made_.unknown = text;
    Conjunction& last = made_.any.back();
    if (last.size() == kMostFactors) made_.unknown = "a condition of so many parts";
    if (last.size() < kMostFactors) last.push_back({.predicate = std::move(predicate), .negated = negated});
  }

  const Line& line_;
  const Proxy& proxy_;
  const Surroundings& around_;
  size_t at_ = 0;
  Condition made_;
};

// Drops factors that always hold, and conjunctions that never do.
void simplify(Condition& condition) {
  std::vector<Conjunction> kept;
  for (Conjunction& conjunction : condition.any) {
    const auto is_never = [](const Factor& f) {
      return f.predicate.kind == (f.negated ? Kind::kAlways : Kind::kNever);
    };
    if (std::any_of(conjunction.begin(), conjunction.end(), is_never)) continue;
    std::erase_if(conjunction,
                  [](const Factor& f) { return f.predicate.kind == (f.negated ? Kind::kNever : Kind::kAlways); });
    kept.push_back(std::move(conjunction));
  }
  // One that always holds makes the others needless.
  const auto always = std::find_if(kept.begin(), kept.end(), [](const Conjunction& c) { return c.empty(); });
  if (always != kept.end()) kept = {Conjunction{}};
  condition.any = std::move(kept);
  const auto knows = [](const Conjunction& c) {
    return std::none_of(c.begin(), c.end(), [](const Factor& f) { return f.predicate.kind == Kind::kUnknown; });
  };
  if (std::all_of(condition.any.begin(), condition.any.end(), knows) && condition.any.size() <= kMostConjunctions) {
    condition.unknown.clear();
  }
}

// `unless`: in each conjunction some factor does not hold.
void negate(Condition& condition) {
  std::vector<Conjunction> made{{}};
  for (const Conjunction& conjunction : condition.any) {
    std::vector<Conjunction> next;
    for (const Conjunction& before : made) {
      for (const Factor& factor : conjunction) {
        next.push_back(before);
        next.back().push_back({.predicate = factor.predicate, .negated = !factor.negated});
      }
    }
    made = std::move(next);
    if (made.size() > kMostConjunctions) {
      condition.unknown = "a condition of so many parts";
      made.resize(1);
    }
  }
  condition.any = std::move(made);
}

}  // namespace

size_t condition_index(const Line& line) {
  for (size_t i = 1; i < line.words.size(); ++i) {
    if (line.words[i] == "if" || line.words[i] == "unless") return i;
  }
  return line.words.size();
}

Condition parse_condition(const Line& line, size_t from, const Proxy& proxy, const Surroundings& around) {
  Condition made;
  if (from >= line.words.size()) {
    made.any.emplace_back();
    return made;
  }
  made = ConditionParser(line, proxy, around).parse(from + 1);
  const bool large = made.any.size() > kMostConjunctions;
  if (line.words[from] == "unless" && !large) negate(made);
  if (!large) simplify(made);
  return made;
}

}  // namespace sluice::convert::haproxy
