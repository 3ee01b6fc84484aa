// What the conversion of another proxy's configuration could not take over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "proxy/config/load/diagnostics.h"

namespace sluice::convert {

/// What a finding means for the resource.
enum class Severity : uint8_t {
  kRefused,  ///< Sluice does not do this: the result lacks something that the resource demands.
  kIgnored,  ///< The result works as the resource says, but for what the message says.
};

/// `refused` or `ignored`.
std::string_view severity_text(Severity severity);

/// One finding. A client of a control plane rejects the resource of a refused one.
struct Finding {
  std::string kind;  ///< Of the resource: `listener`, `route configuration`, `cluster`, ...; or the directive.
  std::string name;  ///< Of the resource or the section; of a directive its first argument.
  std::string path;  ///< Of the field, from the resource on: `filter_chains[0].filters[1]`; empty: the resource.
  std::string message;
  Severity severity = Severity::kRefused;
  config::Mark mark;    ///< Where it is written; line 0: not in a file.
  bool of_all = false;  ///< Whether it is the same for all resources with this field.

  /// `KIND NAME: PATH: SEVERITY: MESSAGE`
  std::string text() const;
};

/// Collects findings, each once.
class Findings {
 public:
  /// Beyond this number, findings are only counted.
  static constexpr size_t kMaxFindings = 1000;

  void add(Finding finding);
  void add_all(const Findings& others);
  /// Puts them in the order of their places.
  void sort();
  /// In the order of discovery, unless they were sorted.
  const std::vector<Finding>& list() const { return list_; }
  /// The number of findings that are not in the list.
  size_t left_out() const { return left_out_; }
  /// How many have this severity, those that were left out included.
  size_t count(Severity severity) const { return severity == Severity::kRefused ? refused_ : ignored_; }

 private:
  size_t count_listed(Severity severity) const;

  std::vector<Finding> list_;
  std::unordered_set<std::string> known_;
  size_t refused_ = 0;
  size_t ignored_ = 0;
  size_t left_out_ = 0;
};

}  // namespace sluice::convert
