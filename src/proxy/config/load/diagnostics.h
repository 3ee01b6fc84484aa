// What is wrong with a configuration: all of it at once, each finding with its place in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"

namespace sluice::config {

/// A place in a text, counted from 1; line 0 means that there is none (the value came from the command line).
struct Mark {
  uint32_t line = 0;
  uint32_t column = 0;

  auto operator<=>(const Mark&) const = default;
};

/// Collects findings. Values are named by path, as in `listeners[0].tcp.forward`; "" is the whole configuration. The
/// loader says where each path stands, so that later checks need the values only.
class Report {
 public:
  /// `path` was written at `mark`.
  void place(std::string_view path, Mark mark) { places_.insert_or_assign(std::string(path), mark); }
  bool is_placed(std::string_view path) const { return places_.contains(std::string(path)); }
  /// Where `path`, or else the nearest value around it, was written.
  Mark place_of(std::string_view path) const;

  /// What is at `path` could not be read, for a reason that is reported: later findings about it, or anything in it,
  /// are consequences, and dropped.
  void ignore(std::string_view path) { ignored_.emplace(path); }

  /// Adds a finding about the value at `path`. It is dropped if there is one already about it or something inside it,
  /// or if it is to be ignored.
  void error(std::string_view path, std::string_view message);
  /// Adds a finding at a place of its own (a key, say), with `path` as the value that later findings are measured by.
  void error_at(Mark mark, std::string_view path, std::string_view message);

  /// Adds what is allowed, but probably not meant.
  void warn(std::string_view path, std::string_view message);

  bool ok() const { return findings_.empty(); }
  /// Further findings are only counted: no use in taking pains with them.
  bool is_full() const { return findings_.size() == kMaxFindings; }
  /// OK, or InvalidArgument with one line for each finding in the order of the file: `NAME:LINE:COLUMN: MESSAGE`, and
  /// `NAME: MESSAGE` where there is no place. Beyond kMaxFindings there is a line with the number left out.
  absl::Status status(std::string_view name) const;
  /// One line for each warning, in the order of discovery: `NAME:LINE:COLUMN: warning: MESSAGE`.
  std::vector<std::string> warnings(std::string_view name) const;

  static constexpr size_t kMaxFindings = 100;

 private:
  struct Finding {
    Mark mark;
    std::string path;
    std::string message;
  };

  bool is_consequence(std::string_view path) const;
  static std::string place_text(std::string_view name, Mark mark);

  std::unordered_map<std::string, Mark> places_;
  std::unordered_set<std::string> ignored_;
  std::vector<Finding> findings_;
  std::vector<Finding> warnings_;
  size_t left_out_ = 0;
};

}  // namespace sluice::config
