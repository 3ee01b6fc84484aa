// HAProxy's configuration file as sections of lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/diagnostics.h"
#include "proxy/convert/common/finding.h"

namespace sluice::convert::haproxy {

/// One line, in words without quotes: `bind *:80`.
struct Line {
  std::vector<std::string> words;
  config::Mark mark;

  std::string_view word(size_t index) const { return index < words.size() ? std::string_view(words[index]) : ""; }
  const std::string& keyword() const { return words.front(); }
  /// The word behind this one; empty if it is not there.
  std::string_view after(std::string_view name) const;
  bool has(std::string_view name) const;
};

/// `frontend web` and the lines below it.
struct Section {
  std::string kind;  ///< `global`, `defaults`, `frontend`, ...
  std::string name;
  std::string from;  ///< Of which `defaults`; empty: the last one before it.
  std::vector<Line> lines;
  config::Mark mark;
};

/// Bounds on what is read.
inline constexpr size_t kMaxBytes = size_t{8} << 20;
inline constexpr size_t kMaxLines = size_t{1} << 16;

struct ParsedFile {
  std::vector<Section> sections;
  std::string error;  ///< `FILE:LINE:COLUMN: what was expected`; empty if all is read.
};

ParsedFile parse_text(std::string_view text, std::string_view name);

/// Reports a line.
void report(const Line& line, Severity severity, std::string_view message, Findings& findings);

}  // namespace sluice::convert::haproxy
