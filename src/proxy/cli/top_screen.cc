#include "proxy/cli/top_screen.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/common/json.h"

namespace sluice {

namespace {

using Style = TopLine::Style;

// The most rows of a table. The table of endpoints takes the rows that are left.
constexpr size_t kMostRows = 6;

std::string bytes_text(double value) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return absl::StrFormat("%.*f %s", unit > 0 && value < 100 ? 1 : 0, value, kUnits[unit]);
}

std::string time_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, seconds));
  if (whole >= 86400) return absl::StrFormat("%d d %d h", whole / 86400, whole % 86400 / 3600);
  if (whole >= 3600) return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
  return whole >= 60 ? absl::StrFormat("%d min %d s", whole / 60, whole % 60) : absl::StrFormat("%d s", whole);
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return out;
}

// Ends that are no errors: docs/reference/counters.md has all of them.
bool is_good_end(std::string_view reason) {
  constexpr std::array<std::string_view, 6> kGood = {"ok",           "moved",        "finished",
                                                     "idle_timeout", "max_duration", "client_left"};
  return std::find(kGood.begin(), kGood.end(), reason) != kGood.end();
}

std::string text_of(const JsonText& json, const JsonValue& object, std::string_view name) {
  const JsonValue* const found = json.member(object, name);
  return found ? std::string(found->text) : "";
}

// Calls `visit` for each element of the array that is this member.
template <class Visit>
void for_each(const JsonText& json, const JsonValue& object, std::string_view name, Visit visit) {
  const JsonValue* const list = json.member(object, name);
  for (const JsonValue* each = list ? json.first(*list) : nullptr; each; each = json.next(*each)) visit(*each);
}

// The texts of the objects in the first array of a JSON text. Each is read by itself, as JsonText limits the values of
// a text.
std::vector<std::string_view> objects_of(std::string_view json) {
  std::vector<std::string_view> found;
  size_t depth = 0, begin = 0;
  bool in_string = false;
  for (size_t at = json.find('['); at < json.size(); ++at) {
    const char c = json[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (depth++ == 1) begin = at;
    } else if (c == ']' || c == '}') {
      if (--depth == 0) break;
      if (depth == 1) found.push_back(json.substr(begin, at + 1 - begin));
    }
  }
  return found;
}

class Screen {
 public:
  Screen(const TopFigures& before, const TopFigures& now, size_t rows, size_t columns)
      : before_(before), now_(now), rows_(rows), columns_(columns) {}

  std::vector<TopLine> lines(std::string_view error) && {
    if (!error.empty()) add(error, Style::kBad);
    summary();
    listeners();
    errors();
    limits();
    endpoints();
    return std::move(lines_);
  }

 private:
  void add(std::string_view text, Style style = Style::kPlain) {
    if (lines_.size() < rows_) lines_.push_back({printable(text.substr(0, columns_)), style});
  }
  void more(size_t count, std::string_view what) {
    if (count > 0) add(absl::StrCat("... ", count, " more ", what));
  }
  double per_second(double now, double before) const {
    const double seconds = now_.time_s - before_.time_s;
    return seconds > 0 ? std::max(0.0, now - before) / seconds : 0;
  }
  double rate(std::string_view name) const { return per_second(now_.metrics.total(name), before_.metrics.total(name)); }
  double rate_of(std::string_view name, std::string_view labels) const {
    return per_second(now_.metrics.value(name, labels), before_.metrics.value(name, labels));
  }

  void summary();
  void listeners();
  void errors();
  void limits();
  void endpoints();

  const TopFigures& before_;
  const TopFigures& now_;
  const size_t rows_, columns_;
  std::vector<TopLine> lines_;
};

void Screen::summary() {
  const MetricsText& metrics = now_.metrics;
  const auto builds = metrics.all("sluice_build_info");
  const std::string version = builds.empty() ? "" : MetricsText::label(builds[0].labels, "version");
  const bool ready = metrics.total("sluice_ready") > 0;
  const double started = metrics.total("process_start_time_seconds");
  add(absl::StrCat("sluice ", version, ", up ", time_text(now_.time_s - started), ", configuration ",
                   metrics.total("sluice_config_generation"), ": ", ready ? "ready" : "NOT READY, it drains"),
      ready ? Style::kHead : Style::kBad);
  for (const auto& each : metrics.all("sluice_worker_responds")) {
    if (each.value == 0) add(absl::StrCat("no response from a worker: ", each.labels), Style::kBad);
  }
  double failed = 0;
  for (const auto& each : metrics.all("sluice_http_requests_ended_total")) {
    if (MetricsText::label(each.labels, "reason") != "ok")
      failed += rate_of("sluice_http_requests_ended_total", each.labels);
  }
  add(absl::StrFormat("requests/s %.1f   failed/s %.1f   connections %.0f   processors %.2f",
                      rate("sluice_http_requests_total"), failed, metrics.total("sluice_sessions_active"),
                      rate("process_cpu_seconds_total")));
  const double used = metrics.total("sluice_pool_bytes"), pinned = metrics.total("sluice_pool_pinned_bytes");
  const std::string of = now_.budget_bytes > 0 ? absl::StrFormat(" of %s (%.1f %%)", bytes_text(now_.budget_bytes),
                                                                 used / now_.budget_bytes * 100)
                                               : "";
  add(absl::StrCat("buffers ", bytes_text(used), of, "   under way ", bytes_text(pinned), "   resident ",
                   bytes_text(metrics.total("process_resident_memory_bytes"))));
}

void Screen::listeners() {
  add("");
  add(absl::StrFormat("%-20s %11s %7s %10s %7s %7s %11s %11s", "LISTENER", "CONNECTIONS", "ACTIVE", "REQUESTS/S",
                      "4XX/S", "5XX/S", "RECEIVED/S", "SENT/S"),
      Style::kHead);
  const auto all = now_.metrics.all("sluice_sessions_active");
  for (const auto& each : all.first(std::min(all.size(), kMostRows))) {
    const std::string& of = each.labels;
    const double errors = rate_of("sluice_http_responses_total", absl::StrCat(of, ",class=\"5xx\""));
    add(absl::StrFormat(
            "%-20s %11.0f %7.0f %10.1f %7.1f %7.1f %11s %11s", MetricsText::label(of, "listener"), each.value,
            now_.metrics.value("sluice_http_requests_active", of), rate_of("sluice_http_requests_total", of),
            rate_of("sluice_http_responses_total", absl::StrCat(of, ",class=\"4xx\"")), errors,
            bytes_text(rate_of("sluice_received_bytes_total", of)), bytes_text(rate_of("sluice_sent_bytes_total", of))),
        errors > 0 ? Style::kBad : Style::kPlain);
  }
  more(all.size() - std::min(all.size(), kMostRows), "listeners");
}

void Screen::errors() {
  struct Error {
    std::string what;
    double per_s, total;
  };
  std::vector<Error> found;
  for (const auto& [name, ended] : {std::pair("sluice_http_requests_ended_total", "requests"),
                                    std::pair("sluice_sessions_ended_total", "connections")}) {
    for (const auto& each : now_.metrics.all(name)) {
      const std::string reason = MetricsText::label(each.labels, "reason");
      const bool good = is_good_end(reason) && !(reason == "idle_timeout" && std::string_view(ended) == "requests");
      if (good || each.value == 0) continue;
      found.push_back({absl::StrFormat("%-20s %-12s %-20s", reason, ended, MetricsText::label(each.labels, "listener")),
                       rate_of(name, each.labels), each.value});
    }
  }
  if (found.empty()) return;
  std::sort(found.begin(), found.end(), [](const Error& a, const Error& b) {
    return std::tie(b.per_s, b.total, a.what) < std::tie(a.per_s, a.total, b.what);
  });
  add("");
  add(absl::StrFormat("%-20s %-12s %-20s %10s %12s", "ERROR", "ENDED", "LISTENER", "PER SECOND", "TOTAL"),
      Style::kHead);
  for (size_t i = 0; i < std::min(found.size(), kMostRows); ++i) {
    add(absl::StrFormat("%s %10.1f %12.0f", found[i].what, found[i].per_s, found[i].total),
        found[i].per_s > 0 ? Style::kBad : Style::kPlain);
  }
  more(found.size() - std::min(found.size(), kMostRows), "reasons");
}

void Screen::limits() {
  constexpr std::array<std::string_view, 10> kLimits = {"sluice_refused_total",
                                                        "sluice_upstream_pending_refused_total",
                                                        "sluice_upstream_retries_over_budget_total",
                                                        "sluice_upstream_panics_total",
                                                        "sluice_pool_refused_total",
                                                        "sluice_accept_pauses_total",
                                                        "sluice_log_dropped_total",
                                                        "sluice_access_log_dropped_total",
                                                        "sluice_completion_overflows_total",
                                                        "sluice_config_reload_failures_total"};
  size_t shown = 0, left_out = 0;
  for (const std::string_view name : kLimits) {
    for (const auto& each : now_.metrics.all(name)) {
      if (each.value == 0) continue;
      if (shown == kMostRows) {
        ++left_out;
        continue;
      }
      if (shown++ == 0) {
        add("");
        add(absl::StrFormat("%-74s %12s", "LIMIT MET", "TOTAL"), Style::kHead);
      }
      const std::string what = each.labels.empty() ? std::string(name) : absl::StrCat(name, "{", each.labels, "}");
      add(absl::StrFormat("%-74s %12.0f", what, each.value),
          rate_of(name, each.labels) > 0 ? Style::kBad : Style::kPlain);
    }
  }
  more(left_out, "limits");
}

void Screen::endpoints() {
  add("");
  add(absl::StrFormat("%-20s %-30s %-10s %7s  %s", "UPSTREAM", "ENDPOINT", "STATE", "ACTIVE", "REASON"), Style::kHead);
  if (!now_.addresses_error.empty()) add(now_.addresses_error);
  for (size_t i = 0; i < now_.addresses.size(); ++i) {
    const size_t left = now_.addresses.size() - i;
    if (left > 1 && lines_.size() + 1 >= rows_) return more(left, "endpoints");
    const TopFigures::Address& each = now_.addresses[i];
    add(absl::StrFormat("%-20s %-30s %-10s %7s  %s", each.upstream, each.address, each.state, each.active, each.reason),
        each.state == "up" ? Style::kPlain : Style::kBad);
  }
}

}  // namespace

TopFigures::TopFigures(std::string_view metrics_page, std::string_view upstreams_page, std::string_view memory_page,
                       double its_time_s)
    : metrics(metrics_page), time_s(its_time_s) {
  JsonText json;
  if (json.read(memory_page)) {
    const JsonValue* const pools = json.member(json.root(), "pools");
    if (pools) (void)absl::SimpleAtod(text_of(json, *pools, "budget_bytes"), &budget_bytes);
  }
  size_t unread = 0;
  for (const std::string_view upstream : objects_of(upstreams_page)) {
    if (!json.read(upstream)) {
      ++unread;
      continue;
    }
    const std::string name = text_of(json, json.root(), "name");
    for_each(json, json.root(), "endpoints", [&](const JsonValue& endpoint) {
      for_each(json, endpoint, "addresses", [&](const JsonValue& address) {
        addresses.push_back({name, text_of(json, address, "address"), text_of(json, address, "state"),
                             text_of(json, address, "reason"), text_of(json, address, "active")});
      });
    });
  }
  if (unread > 0) {
    addresses_error = absl::StrCat(unread, " upstreams have too many endpoints for this screen: see /upstreams");
  }
  std::vector<Address> sorted;  // Those that are up last.
  for (const bool up : {false, true}) {
    for (const Address& each : addresses) {
      if ((each.state == "up") == up) sorted.push_back(each);
    }
  }
  addresses = std::move(sorted);
}

std::vector<TopLine> top_screen(const TopFigures& before, const TopFigures& now, std::string_view error, size_t rows,
                                size_t columns) {
  return Screen(before, now, rows, columns).lines(error);
}

}  // namespace sluice
