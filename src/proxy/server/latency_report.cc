#include "proxy/server/latency_report.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/server/exposition.h"

namespace sluice {

namespace {

using WorkerList = std::vector<std::shared_ptr<WorkerCounters>>;

// Sums `get(worker counters)` over the workers.
template <class Get>
LatencySum sum_of(const WorkerList& workers, const Get& get) {
  LatencySum sum;
  for (const auto& worker : workers) sum.add(get(*worker));
  return sum;
}

struct RequestSums {
  LatencySum duration, first_byte;

  void add(const RequestSums& other) {
    duration.add(other.duration);
    first_byte.add(other.first_byte);
  }
};

template <class Get>
RequestSums request_sums(const WorkerList& workers, const Get& get) {
  return {.duration = sum_of(workers, [&](const WorkerCounters& w) -> auto& { return get(w).duration; }),
          .first_byte = sum_of(workers, [&](const WorkerCounters& w) -> auto& { return get(w).first_byte; })};
}

// Those of the requests that have no route of their own.
RequestSums sums_of_others(const WorkerList& workers, size_t listener) {
  return request_sums(workers, [&](const WorkerCounters& w) -> auto& { return *w.latencies[listener]->others; });
}

// Calls `visit(name, sums)` for each route that has its own.
template <class Visit>
void visit_routes(const config::Listener& config, const WorkerList& workers, size_t listener, const Visit& visit) {
  const std::vector<config::HttpRoute>& routes = config.http->routes;
  for (size_t r = 0; r < routes.size() && !workers.empty(); ++r) {
    if (!workers[0]->latencies[listener]->has_own(r)) continue;
    visit(routes[r].name,
          request_sums(workers, [&](const WorkerCounters& w) -> auto& { return *w.latencies[listener]->by_route[r]; }));
  }
}

struct UpstreamSums {
  LatencySum connect, queue, response;
};

UpstreamSums upstream_sums(const WorkerList& workers, size_t upstream) {
  const auto sum = [&](LatencyHistogram UpstreamLatencies::* member) {
    return sum_of(workers, [&](const WorkerCounters& w) -> auto& { return (*w.upstream_latencies[upstream]).*member; });
  };
  return {.connect = sum(&UpstreamLatencies::connect),
          .queue = sum(&UpstreamLatencies::queue),
          .response = sum(&UpstreamLatencies::response)};
}

LatencySum tls_sum(const WorkerList& workers, size_t listener) {
  return sum_of(workers, [&](const WorkerCounters& w) -> auto& { return w.listeners[listener]->tls_handshake_time; });
}

void histogram(std::string& out, std::string_view name, std::string_view labels, const LatencySum& sum) {
  uint64_t up_to = 0;
  for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
    up_to += sum.buckets[i];
    const std::string_view le =
        i < LatencyHistogram::kBounds.size() ? LatencyHistogram::kBounds[i].text : std::string_view("+Inf");
    absl::StrAppend(&out, "sluice_", name, "_bucket{", labels, ",le=\"", le, "\"} ", up_to, "\n");
  }
  absl::StrAppendFormat(&out, "sluice_%s_sum{%s} %d.%03d\n", name, labels, sum.sum_ms / 1000, sum.sum_ms % 1000);
  absl::StrAppend(&out, "sluice_", name, "_count{", labels, "} ", up_to, "\n");
}

void request_histograms(std::string& out, std::string_view listener, std::string_view route, const RequestSums& sums) {
  const std::string labels = absl::StrCat("listener=\"", escaped(listener), "\",route=\"", escaped(route), "\"");
  histogram(out, "http_request_duration_seconds", labels, sums.duration);
  histogram(out, "http_time_to_first_byte_seconds", labels, sums.first_byte);
}

void write_summary(JsonWriter& json, std::string_view name, const LatencySum& sum) {
  const uint64_t count = sum.count();
  const auto ms = [&](std::string_view key, std::optional<double> value) {
    json.key(key);
    value ? void(json.value(*value)) : void(json.null());
  };
  json.key(name).begin_object().member("count", count);
  ms("mean_ms", count > 0 ? std::optional(static_cast<double>(sum.sum_ms) / static_cast<double>(count)) : std::nullopt);
  for (const auto& [key, part] : {std::pair("p50_ms", 0.5), std::pair("p90_ms", 0.9), std::pair("p99_ms", 0.99)}) {
    const std::optional<double> seconds = sum.quantile(part);
    ms(key, seconds ? std::optional(*seconds * 1000) : std::nullopt);
  }
  json.end_object();
}

void write_requests(JsonWriter& json, const RequestSums& sums) {
  write_summary(json, "request_duration", sums.duration);
  write_summary(json, "time_to_first_byte", sums.first_byte);
}

void write_listener(const config::Listener& config, const WorkerList& workers, size_t index, JsonWriter& json) {
  json.begin_object().member("name", config.name);
  if (config.tls || config.alts) write_summary(json, "tls_handshake", tls_sum(workers, index));
  if (config.http) {
    RequestSums all = sums_of_others(workers, index);
    visit_routes(config, workers, index, [&](const std::string&, const RequestSums& sums) { all.add(sums); });
    write_requests(json, all);
    json.key("routes").begin_array();
    visit_routes(config, workers, index, [&](const std::string& name, const RequestSums& sums) {
      json.begin_object().member("name", name);
      write_requests(json, sums);
      json.end_object();
    });
    json.end_array();
  }
  json.end_object();
}

}  // namespace

std::string format_latencies(const config::Config& config, const WorkerList& workers) {
  std::string out;
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    const config::Listener& listener = config.listeners[i];
    if (listener.tls || listener.alts) {
      const std::string label = absl::StrCat("listener=\"", escaped(listener.name), "\"");
      histogram(out, "tls_handshake_seconds", label, tls_sum(workers, i));
    }
    if (!listener.http) continue;
    request_histograms(out, listener.name, "", sums_of_others(workers, i));
    visit_routes(listener, workers, i, [&](const std::string& name, const RequestSums& sums) {
      if (sums.duration.count() + sums.first_byte.count() > 0) request_histograms(out, listener.name, name, sums);
    });
  }
  for (size_t u = 0; u < config.upstreams.size(); ++u) {
    const std::string label = absl::StrCat("upstream=\"", escaped(config.upstreams[u].name), "\"");
    const UpstreamSums sums = upstream_sums(workers, u);
    if (sums.connect.count() > 0) histogram(out, "upstream_connect_seconds", label, sums.connect);
    if (sums.queue.count() > 0) histogram(out, "upstream_queue_seconds", label, sums.queue);
    if (sums.response.count() > 0) histogram(out, "upstream_response_seconds", label, sums.response);
  }
  return out;
}

void write_latencies(const config::Config& config, const WorkerList& workers, JsonWriter& json) {
  json.key("listeners").begin_array();
  for (size_t i = 0; i < config.listeners.size(); ++i) write_listener(config.listeners[i], workers, i, json);
  json.end_array().key("upstreams").begin_array();
  for (size_t u = 0; u < config.upstreams.size(); ++u) {
    const UpstreamSums sums = upstream_sums(workers, u);
    json.begin_object().member("name", config.upstreams[u].name);
    write_summary(json, "connect", sums.connect);
    write_summary(json, "queue", sums.queue);
    write_summary(json, "response", sums.response);
    json.end_object();
  }
  json.end_array();
}

}  // namespace sluice
