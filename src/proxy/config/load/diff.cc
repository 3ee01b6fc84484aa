#include "proxy/config/load/diff.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/config/load/print.h"

namespace sluice::config {
namespace {

using Lines = std::vector<std::string_view>;

// Above this product of lengths, sections are shown as replaced, rather than compared line by line.
constexpr size_t kMaxCompared = size_t{1} << 20;

size_t indent_of(std::string_view line) { return line.find_first_not_of(" -"); }

// The lines of one text that are not in the other, with the keys around them.
class LineDiff {
 public:
  LineDiff(const Lines& old, const Lines& now) : old_(old), now_(now) {}

  std::string run() {
    size_t begin = 0;
    size_t old_end = old_.size(), now_end = now_.size();
    while (begin < old_end && begin < now_end && old_[begin] == now_[begin]) ++begin;
    while (old_end > begin && now_end > begin && old_[old_end - 1] == now_[now_end - 1]) --old_end, --now_end;
    compare(begin, old_end, begin, now_end);
    return std::move(out_);
  }

 private:
  // By the longest common subsequence.
  void compare(size_t i, size_t old_end, size_t j, size_t now_end) {
    const size_t columns = now_end - j + 1;
    if ((old_end - i + 1) * columns > kMaxCompared) {
      while (i < old_end) emit('-', old_, i++);
      while (j < now_end) emit('+', now_, j++);
      return;
    }
    const size_t old_begin = i, now_begin = j;
    std::vector<uint32_t> length((old_end - i + 1) * columns);
    const auto at = [&](size_t a, size_t b) -> uint32_t& {
      return length[(a - old_begin) * columns + (b - now_begin)];
    };
    for (size_t a = old_end; a-- > i;) {
      for (size_t b = now_end; b-- > j;) {
        at(a, b) = old_[a] == now_[b] ? at(a + 1, b + 1) + 1 : std::max(at(a + 1, b), at(a, b + 1));
      }
    }
    while (i < old_end || j < now_end) {
      if (i < old_end && j < now_end && old_[i] == now_[j]) {
        ++i, ++j;
      } else if (j == now_end || (i < old_end && at(i + 1, j) >= at(i, j + 1))) {
        emit('-', old_, i++);
      } else {
        emit('+', now_, j++);
      }
    }
  }

  void emit(char sign, const Lines& lines, size_t index) {
    emit_around(lines, index);
    absl::StrAppend(&out_, std::string_view(&sign, 1), " ", lines[index], "\n");
  }

  // Prints the keys around a line, unless they were printed last.
  void emit_around(const Lines& lines, size_t index) {
    Lines around;
    size_t indent = indent_of(lines[index]);
    for (size_t i = index; i-- > 0 && indent > 0;) {
      if (indent_of(lines[i]) >= indent) continue;
      indent = indent_of(lines[i]);
      around.push_back(lines[i]);
    }
    std::reverse(around.begin(), around.end());
    size_t same = 0;
    while (same < around.size() && same < around_.size() && around[same] == around_[same]) ++same;
    for (size_t i = same; i < around.size(); ++i) absl::StrAppend(&out_, "  ", around[i], "\n");
    around_ = std::move(around);
  }

  const Lines& old_;
  const Lines& now_;
  Lines around_;  // The keys that were printed last.
  std::string out_;
};

std::string diff_texts(const std::string& old, const std::string& now) {
  const Lines old_lines = absl::StrSplit(old, '\n'), lines = absl::StrSplit(now, '\n');
  return LineDiff(old_lines, lines).run();
}

// The text of one listener or upstream.
std::string text_of(const Listener& listener) { return print_config({.listeners = {listener}}); }
std::string text_of(const Upstream& upstream) { return print_config({.upstreams = {upstream}}); }

template <class T>
const T* find(const std::vector<T>& items, const std::string& name) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const T& each) { return each.name == name; });
  return found == items.end() ? nullptr : &*found;
}

template <class T>
void diff_items(std::string_view kind, const std::vector<T>& old, const std::vector<T>& now, std::string& out) {
  for (const T& each : old) {
    if (!find(now, each.name)) absl::StrAppend(&out, kind, " ", each.name, ": removed\n");
  }
  for (const T& each : now) {
    const T* const before = find(old, each.name);
    if (!before) absl::StrAppend(&out, kind, " ", each.name, ": added\n");
    if (!before || *before == each) continue;
    absl::StrAppend(&out, kind, " ", each.name, ": changed\n", diff_texts(text_of(*before), text_of(each)));
  }
}

Config without_items(Config config) {
  config.listeners.clear();
  config.upstreams.clear();
  return config;
}

}  // namespace

std::string diff_configs(const Config& old, const Config& now) {
  std::string out = diff_texts(print_config(without_items(old)), print_config(without_items(now)));
  diff_items("listener", old.listeners, now.listeners, out);
  diff_items("upstream", old.upstreams, now.upstreams, out);
  return out;
}

}  // namespace sluice::config
