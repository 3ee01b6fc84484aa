#include "proxy/server/process_pages.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "net/worker.h"
#include "proxy/admin/browser_page.h"
#include "proxy/common/json_writer.h"
#include "proxy/config/load/print_json.h"
#include "proxy/config/load/scalar.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/log/run_log.h"
#include "proxy/server/connection_page.h"
#include "proxy/server/endpoint_page.h"
#include "proxy/server/envoy_stats.h"
#include "proxy/server/error_page.h"
#include "proxy/server/exposition.h"
#include "proxy/server/latency_report.h"
#include "proxy/server/process_report.h"
#include "proxy/server/profile_page.h"
#include "proxy/server/upstream_page.h"
#include "proxy/xds/config_dump.h"
#include "sluice/tier.h"
#include "sluice/version.h"

namespace sluice {

namespace {

// In the list of pages.
constexpr size_t kPathWidth = kEndpointPage.size() + 2;

// How many connections /memory lists.
constexpr size_t kLargestConnections = 20;

AdminResponse json_response(JsonWriter&& json) {
  return {.content_type = AdminResponse::kJson, .body = std::move(json).text()};
}

std::string time_text(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(seconds), absl::UTCTimeZone());
}

void write_applied(const ProcessView::Applied& applied, JsonWriter& json) {
  json.member("generation", applied.number);
  json.member("hash", absl::StrCat("sha256:", applied.hash ? applied.hash->text() : ""));
  json.member("applied_at", time_text(applied.applied_s));
}

// Whether there are statistics under Envoy's names: with a control plane, dashboards for Envoy are usual.
bool has_envoy_stats(const ProcessView& view) {
  return view.xds != nullptr || (view.config->admin && view.config->admin->envoy_stats);
}

// Bytes of a line such as "VmRSS:   1234 kB" of /proc/self/status; 0 if it cannot be read.
uint64_t status_bytes(std::string_view name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    uint64_t kib = 0;
    const std::string_view rest = absl::StripAsciiWhitespace(std::string_view(line).substr(name.size()));
    return absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &kib) ? kib * 1024 : 0;
  }
  return 0;
}

}  // namespace

const ProcessPages::Page* ProcessPages::find(std::string_view path) {
  const std::span<const Page> all = pages();
  const std::string_view name = is_endpoint_page(path) ? kEndpointPage : path;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Page& each) { return each.path == name; });
  return found == all.end() ? nullptr : &*found;
}

void ProcessPages::publish(std::shared_ptr<const ProcessView> view) {
  if (const std::shared_ptr<const ProcessView> before = this->view(); before && has_envoy_stats(*view)) {
    earlier_.follow(*before, *view);
  }
  // The previous one is destroyed after the lock is released.
  const std::lock_guard lock(mutex_);
  view_.swap(view);
}

std::shared_ptr<const ProcessView> ProcessPages::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

bool ProcessPages::is_public(const AdminRequest& request) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  return reads && request.path == "/" && wants_browser_page(request.accept);
}

// ---- Figures ----

bool ProcessPages::needs_figures(const AdminRequest& request) {
  const Page* const page = find(request.path);
  return page && page->needs_figures;
}

// The connections that the page shows, if it shows any.
std::optional<ConnectionQuery> ProcessPages::table_for(const AdminRequest& request) {
  const Page* const page = find(request.path);
  if (page && page->respond == &ProcessPages::memory) {
    return ConnectionQuery{.sort = ConnectionQuery::Sort::kMemory, .limit = kLargestConnections};
  }
  if (!page || page->respond != &ProcessPages::connections) return std::nullopt;
  const absl::StatusOr<ConnectionQuery> query = parse_connection_query(request.query);
  return query.ok() ? std::optional(*query) : std::nullopt;
}

void ProcessPages::request_figures(const AdminRequest& request) {
  if (table_) table_->abandoned.store(true, std::memory_order_relaxed);
  table_.reset();
  if (const auto query = table_for(request)) {
    table_ = std::make_shared<ConnectionTable>(*query, process_.workers.size());
    for (size_t i = 0; i < process_.workers.size(); ++i) {
      if (!process_.workers[i]->list_connections(table_)) table_->parts[i]->complete.store(true);
    }
  }
  snapshots_.clear();
  for (const auto& worker : process_.workers) {
    snapshots_.push_back(worker->snapshots());
    worker->request_snapshot();
  }
}

bool ProcessPages::shares_figures(const AdminRequest& request) {
  const auto query = table_for(request);
  return !query || (table_ && table_->query == *query);
}

bool ProcessPages::responds(size_t worker) const {
  return worker >= snapshots_.size() || process_.workers[worker]->stopped() ||
         process_.workers[worker]->snapshots() != snapshots_[worker];
}

bool ProcessPages::has_part(size_t worker) const {
  return !table_ || table_->parts[worker]->complete.load(std::memory_order_acquire) ||
         process_.workers[worker]->stopped();
}

bool ProcessPages::has_figures() {
  for (size_t i = 0; i < process_.workers.size(); ++i) {
    if (!responds(i) || !has_part(i)) return false;
  }
  return true;
}

// The numbers of the workers that have not provided figures.
std::string ProcessPages::silent_workers() const {
  std::vector<size_t> silent;
  for (size_t i = 0; i < process_.workers.size(); ++i) {
    if (!responds(i)) silent.push_back(i);
  }
  return absl::StrJoin(silent, ", ");
}

// ---- Pages ----

AdminResponse ProcessPages::respond(const AdminRequest& request) {
  const Page* const page = find(request.path);
  if (!page) {
    AdminResponse response = index(request);
    response.status = 404;
    response.body = absl::StrCat("there is no page ", request.path, "; the pages are\n", response.body);
    return response;
  }
  const std::vector<std::string_view> methods = absl::StrSplit(page->methods, ", ");
  if (std::find(methods.begin(), methods.end(), request.method) == methods.end()) {
    const std::string why =
        absl::StrCat(page->path, " does not take ", request.method, "; it takes ", page->methods, "\n");
    return {.status = 405, .body = why, .allow = page->methods};
  }
  return (this->*page->respond)(request);
}

AdminResponse ProcessPages::index(const AdminRequest& request) {
  if (is_public(request)) {
    return {.content_type = AdminResponse::kHtml, .body = std::string(browser_page()), .policy = browser_page_policy()};
  }
  AdminResponse response;
  for (const Page& each : pages()) {
    absl::StrAppend(&response.body, each.path, std::string(kPathWidth - each.path.size(), ' '), each.text, "\n");
  }
  return response;
}

AdminResponse ProcessPages::healthz(const AdminRequest&) {
  const std::string silent = silent_workers();
  if (silent.empty()) return {.body = "ok\n"};
  const std::string why = absl::StrCat("no response from worker ", silent, "\n");
  return {.status = 503, .body = why};
}

// The same as the responses of routes with `readiness`.
AdminResponse ProcessPages::readyz(const AdminRequest&) {
  if (!process_.stopping.load(std::memory_order_relaxed)) return {.body = "ready\n"};
  return {.status = 503, .body = "draining\n"};
}

AdminResponse ProcessPages::metrics(const AdminRequest& request) {
  const std::shared_ptr<const ProcessView> shown = view();
  ScrapeState state{.generation = shown->current.number,
                    .applied_s = shown->current.applied_s,
                    .ready = !process_.stopping.load(std::memory_order_relaxed)};
  for (size_t i = 0; i < process_.workers.size(); ++i) state.responds.push_back(responds(i));
  const std::string lines =
      absl::StrCat(format_scrape(state), format_counters(*shown, process_.control),
                   format_latencies(*shown->config, shown->counters), format_admin(process_.admin));
  const MetricsFormat format = metrics_format(request.accept);
  return {.content_type = metrics_content_type(format),
          .body = absl::StrCat(exposition(lines, format), format_process_metrics(format))};
}

AdminResponse ProcessPages::envoy_stats(const AdminRequest& request) {
  const std::shared_ptr<const ProcessView> shown = view();
  if (!has_envoy_stats(*shown))
    return {.status = 404, .body = "counters under Envoy's names are off: set `admin.envoy_stats`\n"};
  const bool used_only = request.query == "usedonly";
  if (!request.query.empty() && !used_only) return {.status = 400, .body = "expected no query, or usedonly\n"};
  const auto uptime = std::chrono::steady_clock::now() - began_;
  const EnvoyStatsSource source{
      .view = *shown,
      .earlier = earlier_,
      .is_live = !process_.stopping.load(std::memory_order_relaxed),
      .uptime_s = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(uptime).count()),
      .connections = process_.connections.active(),
      .resident_bytes = status_bytes("VmRSS:")};
  return {.content_type = metrics_content_type(MetricsFormat::kPrometheus),
          .body = envoy_stats_page(source, used_only)};
}

AdminResponse ProcessPages::latency(const AdminRequest&) {
  const std::shared_ptr<const ProcessView> shown = view();
  JsonWriter json;
  json.begin_object();
  write_latencies(*shown->config, shown->counters, json);
  json.end_object();
  return json_response(std::move(json));
}

AdminResponse ProcessPages::config(const AdminRequest& request) {
  const bool only_config = request.query == "only=config";
  if (!request.query.empty() && !only_config) {
    return {.status = 400, .body = "expected no query, or only=config\n"};
  }
  const std::shared_ptr<const ProcessView> shown = view();
  JsonWriter json;
  if (only_config) {
    config::write_config(*shown->config, json);
    return json_response(std::move(json));
  }
  json.begin_object();
  write_applied(shown->current, json);
  config::write_config(*shown->config, json.key("config"));
  json.end_object();
  return json_response(std::move(json));
}

namespace {

AdminResponse no_control_plane() {
  return {.status = 404, .body = "there is no control plane: /config has the configuration\n"};
}

// Of the pages that Envoy has as text, too.
AdminResponse wrong_format() { return {.status = 400, .body = "expected ?format=json\n"}; }

}  // namespace

AdminResponse ProcessPages::clusters(const AdminRequest& request) {
  const std::shared_ptr<const ProcessView> shown = view();
  if (shown->xds_dump == nullptr) return no_control_plane();
  if (request.query != "format=json") return wrong_format();
  const xds::LoadView loads{.config = shown->config, .upstreams = shown->upstreams, .counters = shown->counters};
  return {.content_type = AdminResponse::kJson, .body = shown->xds_dump->clusters(loads)};
}

AdminResponse ProcessPages::listeners(const AdminRequest& request) {
  const std::shared_ptr<const ProcessView> shown = view();
  if (shown->xds_dump == nullptr) return no_control_plane();
  if (request.query != "format=json") return wrong_format();
  return {.content_type = AdminResponse::kJson, .body = shown->xds_dump->listeners()};
}

AdminResponse ProcessPages::config_dump(const AdminRequest& request) {
  const std::shared_ptr<const ProcessView> shown = view();
  if (shown->xds_dump == nullptr) return no_control_plane();
  const std::string_view name = std::string_view(request.query).substr(0, request.query.find('='));
  if (!name.empty() && name != "include_eds") return {.status = 400, .body = "expected no query, or include_eds\n"};
  const bool with_endpoints = !name.empty() && request.query != "include_eds=false";
  return {.content_type = AdminResponse::kJson, .body = shown->xds_dump->json(with_endpoints)};
}

AdminResponse ProcessPages::generations(const AdminRequest&) {
  const std::shared_ptr<const ProcessView> shown = view();
  JsonWriter json;
  json.begin_object();
  json.member("pid", getpid()).member("version", SLUICE_VERSION_STRING).member("phase", shown->phase);
  json.key("current").begin_object();
  write_applied(shown->current, json);
  json.member("listeners", shown->config->listeners.size()).member("upstreams", shown->config->upstreams.size());
  json.end_object();
  json.key("earlier").begin_array();
  for (const ProcessView::Applied& each : shown->earlier) {
    json.begin_object();
    write_applied(each, json);
    json.member("draining", each.draining).end_object();
  }
  json.end_array();
  json.member("reloads", process_.control.reloads.value());
  json.member("reload_failures", process_.control.reload_failures.value());
  json.end_object();
  return json_response(std::move(json));
}

AdminResponse ProcessPages::upstreams(const AdminRequest&) {
  const std::shared_ptr<const ProcessView> shown = view();
  JsonWriter json;
  json.begin_object().key("upstreams").begin_array();
  for (size_t i = 0; i < shown->upstreams.size(); ++i) {
    UpstreamState& upstream = *shown->upstreams[i];
    std::optional<ConcurrencyFigures> concurrency;
    if (upstream.config().adaptive_concurrency) concurrency = ConcurrencyFigures::of(shown->counters, i);
    write_upstream(upstream, concurrency, monotonic_ms(), json);
  }
  json.end_array().end_object();
  return json_response(std::move(json));
}

AdminResponse ProcessPages::endpoint(const AdminRequest& request) {
  const uint64_t changes = process_.admin.endpoint_changes.value();
  AdminResponse response = endpoint_page(request, *view(), process_.admin);
  if (process_.admin.endpoint_changes.value() == changes) return response;
  // Workers without traffic would not notice: health checks of an added endpoint begin, and idle connections to one
  // that is removed end.
  for (const auto& worker : process_.workers) worker->follow_endpoints();
  return response;
}

AdminResponse ProcessPages::connections(const AdminRequest& request) {
  const absl::StatusOr<ConnectionQuery> query = parse_connection_query(request.query);
  if (!query.ok()) return {.status = 400, .body = absl::StrCat(query.status().message(), "\n")};
  JsonWriter json;
  write_connections(*table_, [this](size_t worker) { return has_part(worker); }, json);
  return json_response(std::move(json));
}

namespace {

// What any worker could borrow.
uint64_t available_bytes(const ProcessView& shown) {
  uint64_t held = 0;
  for (const auto& worker : shown.counters) held += worker->gauges->pool_held_bytes.value();
  const uint64_t budget = shown.config->memory.budget_of(shown.counters.size());
  return budget > held ? budget - held : 0;
}

}  // namespace

AdminResponse ProcessPages::pools(const AdminRequest&) {
  const std::shared_ptr<const ProcessView> shown = view();
  JsonWriter json;
  json.begin_object().member("budget_bytes", shown->config->memory.worker_budget.bytes);
  json.member("process_budget_bytes", shown->config->memory.budget_of(shown->counters.size()));
  json.member("available_bytes", available_bytes(*shown));
  json.key("workers").begin_array();
  for (size_t i = 0; i < shown->counters.size(); ++i) {
    const WorkerGauges& gauges = *shown->counters[i]->gauges;
    json.begin_object().member("worker", i).member("responds", responds(i));
    json.member("bytes", gauges.pool_out_bytes.value()).member("peak_bytes", gauges.pool_out_bytes_peak.value());
    json.member("budget_bytes", gauges.pool_budget_bytes.value());
    json.member("held_bytes", gauges.pool_held_bytes.value());
    json.member("borrowed_bytes", gauges.pool_borrowed_bytes.value());
    json.member("mapped_bytes", gauges.pool_mapped_bytes.value());
    json.member("posted_bytes", gauges.posted_bytes.value());
    json.member("refused", gauges.pool_refused.value()).member("receives_parked", gauges.parked.value());
    json.key("tiers").begin_array();
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      json.begin_object().member("chunk_bytes", tier_bytes(static_cast<int>(tier)));
      json.member("bytes", gauges.tier_out_bytes[tier].value()).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json_response(std::move(json));
}

AdminResponse ProcessPages::memory(const AdminRequest&) {
  const std::shared_ptr<const ProcessView> shown = view();
  uint64_t out = 0, posted = 0, mapped = 0, borrowed = 0;
  for (const auto& worker : shown->counters) {
    out += worker->gauges->pool_out_bytes.value();
    posted += worker->gauges->posted_bytes.value();
    mapped += worker->gauges->pool_mapped_bytes.value();
    borrowed += worker->gauges->pool_borrowed_bytes.value();
  }
  JsonWriter json;
  json.begin_object();
  json.member("resident_bytes", status_bytes("VmRSS:")).member("peak_resident_bytes", status_bytes("VmHWM:"));
  json.member("virtual_bytes", status_bytes("VmSize:"));
  const OverloadState& overload = process_.overload;
  json.key("overload").begin_object();
  json.member("level", memory_level_name(overload.level())).member("used_bytes", overload.used_bytes());
  json.member("limit_bytes", overload.limit_bytes()).end_object();
  json.key("pools").begin_object();
  const config::Memory& memory = shown->config->memory;
  json.member("budget_bytes", memory.budget_of(shown->counters.size()));
  json.member("guaranteed_bytes", memory.worker_budget.bytes * shown->counters.size());
  json.member("borrowed_bytes", borrowed).member("available_bytes", available_bytes(*shown));
  json.member("mapped_bytes", mapped).member("bytes", out).member("posted_bytes", posted);
  json.member("pinned_bytes", out > posted ? out - posted : 0).end_object();
  json.key("body_file");
  if (shown->body_file) {
    const FilePool::Stats stats = shown->body_file->pool.stats();
    json.begin_object().member("bytes", stats.out_bytes).member("disk_bytes", stats.disk_bytes);
    json.member("limit_bytes", stats.limit_bytes).end_object();
  } else {
    json.null();
  }
  json.member("connections", process_.connections.active());
  write_connection_rows(table_->first_rows(), json.key("largest_connections"));
  json.end_object();
  return json_response(std::move(json));
}

AdminResponse ProcessPages::errors(const AdminRequest&) {
  JsonWriter json;
  json.begin_object();
  write_recent_lines(RunLog::process(), json);
  json.end_object();
  return json_response(std::move(json));
}

AdminResponse ProcessPages::profile(const AdminRequest& request) { return profile_page(request, process_.workers); }

AdminResponse ProcessPages::log_level(const AdminRequest& request) {
  RunLog& log = RunLog::process();
  const auto name = [](LogLevel level) { return config::Scalar<LogLevel>::print(level); };
  if (request.method == "PUT" || request.method == "POST") {
    const absl::StatusOr<LogLevel> level = config::Scalar<LogLevel>::parse(absl::StripAsciiWhitespace(request.body));
    if (!level.ok()) return {.status = 400, .body = absl::StrCat(level.status().message(), "\n")};
    const LogLevel before = log.level();
    // A line of either level says so.
    const std::string text = absl::StrCat("admin: the log level changes from ", name(before), " to ", name(*level),
                                          ", until it is changed again or a reload changes `log`");
    log_line(std::max({before, *level, LogLevel::kInfo}), text);
    log.set_level(*level);
  }
  JsonWriter json;
  json.begin_object().member("level", name(log.level())).member("configured", name(view()->config->log.level));
  json.end_object();
  return json_response(std::move(json));
}

}  // namespace sluice
