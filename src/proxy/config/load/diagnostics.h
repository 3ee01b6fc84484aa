// Findings about a configuration. All are collected before any is reported, each with its position in its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"

namespace sluice::config {

/// A position in a file. Lines and columns count from 1; line 0 means no position in it (or that the value came from
/// the command line).
struct Mark {
  uint32_t file = 0;  ///< In the order of Report::add_file(); 0 is the configuration's own file.
  uint32_t line = 0;
  uint32_t column = 0;

  auto operator<=>(const Mark&) const = default;
};

/// The path of an item of a list: `listeners[0]` for the first item of `listeners`. `list` is the path of the list.
std::string item_path(std::string_view list, size_t index);

/// Collects findings. A value is identified by its path, such as `listeners[0].tcp.forward`; "" is the whole
/// configuration. The loader records the position of each path, so later checks need only the path.
class Report {
 public:
  /// `name`: the path of the main file.
  explicit Report(std::string_view name) : files_{std::string(name)} {}

  /// Adds a file that the configuration includes. Returns its number for Mark.
  uint32_t add_file(std::string_view name);
  /// Notes a path or pattern for files that the configuration includes.
  void add_pattern(std::string_view pattern) { patterns_.emplace_back(pattern); }
  /// The files, and the patterns for files, that the configuration is made of.
  std::vector<std::string> sources() const;
  /// Where `mark` is, for the inside of a message: `LINE:COLUMN`, behind the file's name if there are several files.
  std::string place_text(Mark mark) const;

  /// Records that the value at `path` was written at `mark`.
  void place(std::string_view path, Mark mark) { places_.insert_or_assign(std::string(path), mark); }
  bool is_placed(std::string_view path) const { return places_.contains(std::string(path)); }
  /// The position of `path`, or else of the innermost recorded value that contains it.
  Mark place_of(std::string_view path) const;
  /// `path`, followed by its place if it has one: "listeners[0] (12:5)", or "listeners[0] (a.yaml:12:5)" if there are
  /// several files.
  std::string with_place(std::string_view path) const;

  /// Marks the value at `path` as unreadable, for a reason already reported. Later findings about it, or about anything
  /// inside it, are consequences and are dropped.
  void ignore(std::string_view path) { ignored_.emplace(path); }

  /// Adds a finding about the value at `path`. It is dropped if `path` is ignored, or if there already is a finding
  /// about the value or anything inside it.
  void error(std::string_view path, std::string_view message);
  /// Adds a finding at `mark`, for example the position of a key. `path` is the value that the finding counts against.
  void error_at(Mark mark, std::string_view path, std::string_view message);

  /// Adds a warning: the value is valid, but probably a mistake.
  void warn(std::string_view path, std::string_view message);

  bool ok() const { return findings_.empty(); }
  /// Whether further findings are only counted, so that callers can skip expensive messages.
  bool is_full() const { return findings_.size() == kMaxFindings; }
  /// OK, or InvalidArgument with one line for each finding, in the order of the files and then of their lines:
  /// `NAME:LINE:COLUMN: MESSAGE`, or `NAME: MESSAGE` without a position. If there are more than kMaxFindings, a last
  /// line gives the number left out.
  absl::Status status() const;
  /// One line for each warning, in the order of discovery: `NAME:LINE:COLUMN: warning: MESSAGE`.
  std::vector<std::string> warnings() const;

  static constexpr size_t kMaxFindings = 100;

 private:
  struct Finding {
    Mark mark;
    std::string path;
    std::string message;
  };

  bool is_consequence(std::string_view path) const;
  std::string line_start(Mark mark) const;

  std::vector<std::string> files_;
  std::vector<std::string> patterns_;
  std::unordered_map<std::string, Mark> places_;
  std::unordered_set<std::string> ignored_;
  std::vector<Finding> findings_;
  std::vector<Finding> warnings_;
  size_t left_out_ = 0;
};

}  // namespace sluice::config
