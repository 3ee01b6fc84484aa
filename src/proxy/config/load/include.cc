#include "proxy/config/load/include.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/schema.h"

namespace sluice::config {
namespace {

// The visitor that finds the keys whose values are lists.
struct ListKeys {
  template <class T>
  void field(std::string_view key, T&, std::string_view, const Rules& = {}) {
    if constexpr (kIsList<T>) keys.push_back(key);
  }
  void directive(std::string_view, std::string_view) {}

  std::vector<std::string_view> keys;
};

// A file on the disk, however it is named.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;

  bool operator==(const Identity&) const = default;
};

class OpenFile {
 public:
  OpenFile(int fd, std::string path, Identity identity) : fd_(fd), path_(std::move(path)), identity_(identity) {}
  OpenFile(OpenFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), identity_(other.identity_) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }

  const Identity& identity() const { return identity_; }

  // Returns up to `limit` bytes.
  absl::StatusOr<std::string> read(size_t limit) const {
    constexpr size_t kStep = size_t{64} << 10;
    std::string text;
    size_t length = 0;
    while (length < limit) {
      if (length == text.size()) text.resize(std::min(limit, 2 * length + kStep));
      const ssize_t got = ::read(fd_, text.data() + length, text.size() - length);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
      if (got == 0) break;
      length += static_cast<size_t>(got);
    }
    text.resize(length);
    return text;
  }

 private:
  int fd_;
  std::string path_;
  Identity identity_;
};

// `is_included`: only a regular file, since opening or reading another could wait forever.
absl::StatusOr<OpenFile> open_file(const std::string& path, bool is_included) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | (is_included ? O_NONBLOCK : 0));
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat status{};
  const int result = fstat(fd, &status);
  OpenFile file(fd, path, {status.st_dev, status.st_ino});
  if (result != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  if (is_included && !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": it is not a regular file"));
  }
  return file;
}

bool has_wildcard(std::string_view pattern) { return pattern.find_first_of("*?[") != std::string_view::npos; }

// A folder that is not there has no matches, but one that cannot be read might have.
int is_failure(const char* /*path*/, int error) { return error != ENOENT && error != ENOTDIR ? 1 : 0; }

// The files that fit, sorted. A folder that `pattern` is relative to is taken as it is, whatever characters it has.
absl::StatusOr<std::vector<std::string>> find_matches(std::string_view folder, std::string_view pattern) {
  const std::string escaped = absl::StrReplaceAll(folder, {{"\\", "\\\\"}, {"*", "\\*"}, {"?", "\\?"}, {"[", "\\["}});
  glob_t found{};
  const absl::Cleanup free_it = [&found] { globfree(&found); };
  const int result = glob(absl::StrCat(escaped, pattern).c_str(), GLOB_NOSORT, is_failure, &found);
  if (result == GLOB_NOMATCH) return std::vector<std::string>();
  if (result != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot read all folders of ", in_quotes(pattern), ": check their permissions"));
  }
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The path up to the last slash, with it; "" if there is none.
std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

struct Include {
  Mark mark;  // of the key
  Node patterns;
};

// Takes `include` out of a map. Of several, which are a finding, it returns the first.
std::optional<Include> take_include(Node& map) {
  std::optional<Include> first;
  size_t kept = 0;
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text == kIncludeKey) {
      if (!first) first = Include{map.keys[i].mark, std::move(map.items[i])};
      continue;
    }
    if (kept != i) {
      map.keys[kept] = std::move(map.keys[i]);
      map.items[kept] = std::move(map.items[i]);
    }
    ++kept;
  }
  map.keys.resize(kept);
  if (map.kind == Node::Kind::kMap) map.items.resize(kept);
  return first;
}

class Reader {
 public:
  Reader(Node& root, Report& report) : root_(root), report_(report) {
    Config config;
    describe(lists_, config);
  }

  absl::StatusOr<bool> read(const std::string& path) {
    const absl::StatusOr<OpenFile> file = open_file(path, false);
    if (!file.ok()) return file.status();
    // One byte beyond the bound, so that the parser can detect a file that is too large.
    const absl::StatusOr<std::string> text = file->read(budget_.bytes + 1);
    if (!text.ok()) return text.status();
    files_.push_back({file->identity(), Mark{}});
    add(0, path, *text);
    return usable_;
  }

 private:
  struct File {
    Identity identity;
    Mark included_at;
  };

  void fail(Mark mark, std::string_view message) {
    usable_ = false;
    report_.error_at(mark, "", message);
  }

  // Adds a file, and then those that it includes.
  void add(uint32_t file, const std::string& path, std::string_view text) {
    Node part;
    if (!parse_yaml(text, file, budget_, part, report_)) {
      usable_ = false;
      return;
    }
    if (file != 0 && part.kind == Node::Kind::kNull) return;  // empty
    if (file != 0 && part.kind != Node::Kind::kMap) {
      return fail(part.mark, absl::StrCat("expected a map, got ", describe_kind(part)));
    }
    const std::optional<Include> include = take_include(part);
    if (file == 0) {
      root_ = std::move(part);
      for (size_t i = 0; i < root_.keys.size(); ++i) known_.emplace(root_.keys[i].text, i);
    } else {
      merge(std::move(part));
    }
    if (!include) return;
    open_.push_back(file);
    include_all(folder_of(path), *include);
    open_.pop_back();
  }

  void merge(Node part) {
    for (size_t i = 0; i < part.keys.size(); ++i) {
      const auto [known, is_new] = known_.emplace(part.keys[i].text, root_.keys.size());
      if (!is_new) {
        append(known->second, part.keys[i], part.items[i]);
        continue;
      }
      root_.keys.push_back(std::move(part.keys[i]));
      root_.items.push_back(std::move(part.items[i]));
    }
  }

  // Appends the list at `key` to the one that is at this index of the root.
  void append(size_t index, const Node& key, Node& more) {
    const Mark first = root_.keys[index].mark;
    if (first.file == key.mark.file) return;  // a duplicate in one file, which is a finding already
    if (std::find(lists_.keys.begin(), lists_.keys.end(), key.text) == lists_.keys.end()) {
      return report_.error_at(key.mark, "",
                              absl::StrCat(in_quotes(key.text), " is already at ", report_.place_text(first), "; only ",
                                           absl::StrJoin(lists_.keys, ", "), " may be in several files"));
    }
    if (more.unusable) return;
    if (more.kind != Node::Kind::kList) {
      return report_.error_at(more.mark, "", absl::StrCat(key.text, ": expected a list, got ", describe_kind(more)));
    }
    Node& list = root_.items[index];
    if (list.kind != Node::Kind::kList) return;  // the loader reports it
    list.items.insert(list.items.end(), std::make_move_iterator(more.items.begin()),
                      std::make_move_iterator(more.items.end()));
  }

  void include_all(std::string_view folder, const Include& include) {
    if (open_.size() > kMaxIncludeDepth) {
      return fail(include.mark, absl::StrCat("include: files that include each other are nested more than ",
                                             kMaxIncludeDepth, " deep"));
    }
    if (include.patterns.kind != Node::Kind::kList) return include_pattern(folder, include.patterns);
    for (const Node& pattern : include.patterns.items) include_pattern(folder, pattern);
  }

  void include_pattern(std::string_view folder, const Node& pattern) {
    if (pattern.unusable) {
      usable_ = false;
      return;
    }
    if (pattern.kind != Node::Kind::kScalar || pattern.text.empty() || absl::StrContains(pattern.text, '\0')) {
      return fail(pattern.mark,
                  absl::StrCat("include: expected the path of a file, or a pattern such as conf.d/*.yaml, "
                               "got ",
                               describe_kind(pattern)));
    }
    if (absl::StartsWith(pattern.text, "/")) folder = "";
    report_.add_pattern(absl::StrCat(folder, pattern.text));
    if (!has_wildcard(pattern.text)) return include_file(absl::StrCat(folder, pattern.text), pattern.mark);
    const absl::StatusOr<std::vector<std::string>> paths = find_matches(folder, pattern.text);
    if (!paths.ok()) return fail(pattern.mark, absl::StrCat("include: ", paths.status().message()));
    for (const std::string& path : *paths) include_file(path, pattern.mark);
  }

  void include_file(const std::string& path, Mark mark) {
    if (is_full_) return;
    if (files_.size() == kMaxFiles) {
      is_full_ = true;
      return fail(mark, absl::StrCat("include: the configuration has more than ", kMaxFiles, " files"));
    }
    const absl::StatusOr<OpenFile> file = open_file(path, true);
    if (!file.ok()) return fail(mark, absl::StrCat("include: ", file.status().message()));
    for (uint32_t known = 0; known < files_.size(); ++known) {
      if (files_[known].identity != file->identity()) continue;
      if (std::find(open_.begin(), open_.end(), known) != open_.end()) {
        return fail(mark, absl::StrCat("include: ", path, " would include itself"));
      }
      return fail(mark, absl::StrCat("include: ", path, " is already included at ",
                                     report_.place_text(files_[known].included_at)));
    }
    const absl::StatusOr<std::string> text = file->read(budget_.bytes + 1);
    if (!text.ok()) return fail(mark, absl::StrCat("include: ", text.status().message()));
    files_.push_back({file->identity(), mark});
    add(report_.add_file(path), path, *text);
  }

  Node& root_;
  Report& report_;
  ListKeys lists_;
  YamlBudget budget_;
  std::unordered_map<std::string, size_t> known_;  // the keys of the root
  std::vector<File> files_;                        // by number
  std::vector<uint32_t> open_;  // numbers of the file that is being read, and of those that led to it
  bool usable_ = true;
  bool is_full_ = false;
};

}  // namespace

bool read_text(std::string_view text, Node& root, Report& report) {
  YamlBudget budget;
  if (!parse_yaml(text, 0, budget, root, report)) return false;
  if (const std::optional<Include> include = take_include(root)) {
    report.error_at(include->mark, "", "include: only a file can include others, since paths begin at its folder");
    return false;
  }
  return true;
}

absl::StatusOr<bool> read_files(const std::string& path, Node& root, Report& report) {
  return Reader(root, report).read(path);
}

}  // namespace sluice::config
