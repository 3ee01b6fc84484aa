// nginx's configuration files as a tree of directives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/diagnostics.h"
#include "proxy/convert/common/disk.h"

namespace sluice::convert::nginx {

/// One directive: `proxy_pass http://app;` or `server { ... }`.
struct Directive {
  std::string name;
  std::vector<std::string> args;  ///< Without quotes.
  std::vector<Directive> block;
  bool has_block = false;
  config::Mark mark;

  /// The argument at `index`, or an empty text.
  std::string_view arg(size_t index) const { return index < args.size() ? std::string_view(args[index]) : ""; }
  /// The directives of this name in its block.
  std::vector<const Directive*> all(std::string_view wanted) const;
};

/// Bounds on what is read.
inline constexpr size_t kMaxFiles = 1024;
inline constexpr size_t kMaxBytes = size_t{8} << 20;  ///< Of all files.
inline constexpr size_t kMaxDirectives = size_t{1} << 17;
inline constexpr size_t kMaxDepth = 32;         ///< Blocks inside each other, those of included files too.
inline constexpr size_t kMaxIncludeDepth = 10;  ///< Files that include each other in a chain.

struct ParsedFiles {
  Directive root;                  ///< Its block has the directives of the main level.
  std::vector<std::string> files;  ///< Marks name them by index.
  std::string error;               ///< `FILE:LINE:COLUMN: what was expected`; empty if all is read.
};

/// Reads the file at `path`, and in the place of each `include` the files that it names. Relative paths begin at the
/// folder of `path`, as in nginx.
ParsedFiles parse_files(const std::string& path, const Disk& disk);

/// The path that a relative one stands for: it begins at the folder of the main file.
std::string absolute_path(std::string_view main_file, std::string_view path);

}  // namespace sluice::convert::nginx
