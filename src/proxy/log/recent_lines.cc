#include "proxy/log/recent_lines.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/common/utf8.h"

namespace sluice {

namespace {

void cut_text(std::string& text) {
  if (text.size() <= RecentLines::kTextBytes) return;
  constexpr std::string_view kMark = "...";
  text.resize(utf8_beginning(text, RecentLines::kTextBytes - kMark.size()).size());
  text += kMark;
  text.shrink_to_fit();
}

// Whether two texts differ in their numbers only.
bool have_the_same_words(std::string_view a, std::string_view b) {
  const auto skip_number = [](std::string_view& text) {
    const size_t end = text.find_first_not_of("0123456789.");
    text.remove_prefix(std::min(end, text.size()));
  };
  for (;;) {
    skip_number(a);
    skip_number(b);
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (a.front() != b.front()) return false;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
}

// Of an endpoint that fails, texts say how often and for how long. Other numbers may be what a line is about.
bool of_a_kind(const LogRecord& a, const LogRecord& b) {
  const bool same_place = a.level == b.level && a.listener == b.listener && a.upstream == b.upstream &&
                          a.endpoint == b.endpoint && a.reason == b.reason;
  return same_place && (a.endpoint.empty() ? a.text == b.text : have_the_same_words(a.text, b.text));
}

}  // namespace

void RecentLines::add(const LogRecord& record) {
  if (record.level < LogLevel::kWarning) return;
  Line line{.last = record, .first_ms = record.time_ms};
  cut_text(line.last.text);
  const std::lock_guard lock(mutex_);
  const auto same =
      std::find_if(lines_.begin(), lines_.end(), [&](const Line& each) { return of_a_kind(each.last, line.last); });
  if (same != lines_.end()) {
    line.times += same->times;
    line.first_ms = same->first_ms;
    lines_.erase(same);
  } else if (lines_.size() == kLines) {
    lines_.pop_front();
  }
  lines_.push_back(std::move(line));
}

std::vector<RecentLines::Line> RecentLines::lines() const {
  const std::lock_guard lock(mutex_);
  return {lines_.rbegin(), lines_.rend()};
}

}  // namespace sluice
