#include "proxy/server/envoy_stats.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/server/exposition.h"
#include "proxy/xds/config_dump.h"
#include "proxy/xds/resource_kind.h"

namespace sluice {

namespace {

// Envoy's bounds. Sluice counts whole milliseconds, so it has no bucket for half of one.
constexpr std::array<std::pair<uint32_t, std::string_view>, 18> kEnvoyBounds = {{{1, "1"},
                                                                                 {5, "5"},
                                                                                 {10, "10"},
                                                                                 {25, "25"},
                                                                                 {50, "50"},
                                                                                 {100, "100"},
                                                                                 {250, "250"},
                                                                                 {500, "500"},
                                                                                 {1000, "1000"},
                                                                                 {2500, "2500"},
                                                                                 {5000, "5000"},
                                                                                 {10'000, "10000"},
                                                                                 {30'000, "30000"},
                                                                                 {60'000, "60000"},
                                                                                 {300'000, "300000"},
                                                                                 {600'000, "600000"},
                                                                                 {1'800'000, "1800000"},
                                                                                 {3'600'000, "3600000"}}};

std::vector<EnvoyBucket> make_buckets() {
  std::vector<EnvoyBucket> buckets;
  for (size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
    for (const auto& [ms, text] : kEnvoyBounds) {
      const bool same = LatencyHistogram::kBounds[i].ms == ms && LatencyHistogram::kBounds[i].seconds * 1000 == ms;
      if (same) buckets.push_back({.le = text, .last = i});
    }
  }
  return buckets;
}

// ---- Collecting ----

// Figures by the value of the label that tells them apart.
template <class Figures>
struct Named {
  std::string labels;  // `name="value"`, escaped.
  Figures figures;
};

std::string label(std::string_view name, std::string_view value) {
  return absl::StrCat(name, "=\"", escaped(value), "\"");
}

void add_members(UpstreamState& state, ClusterFigures& figures) {
  const EndpointView view(state.slots());
  figures.members = view.present().size();
  for (const uint32_t slot : view.present()) {
    const EndpointState& endpoint = state.endpoint(slot);
    if (endpoint.enabled() && endpoint.health.in()) ++figures.healthy;
    if (endpoint.health.ejected_until_ms.load(std::memory_order_relaxed) != 0) ++figures.ejected;
  }
  figures.has_ejection = state.ejections() != nullptr;
}

std::vector<Named<ClusterFigures>> collect_clusters(const EnvoyStatsSource& source, const xds::StatNames* names) {
  const ProcessView& view = source.view;
  std::vector<Named<ClusterFigures>> all(view.upstreams.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& upstream = view.upstreams[i]->config().name;
    ClusterFigures& figures = all[i].figures;
    for (const auto& worker : view.counters) {
      for (const auto& endpoint : worker->upstreams[i]) figures.add(*endpoint);
      figures.add(*worker->http_upstreams[i]);
      figures.add(*worker->upstream_latencies[i]);
    }
    source.earlier.add_to(upstream, figures);
    add_members(*view.upstreams[i], figures);
    figures.has_http2 = view.upstreams[i]->config().protocol == config::Protocol::kHttp2;
    const auto cluster = names != nullptr ? names->clusters.find(upstream) : decltype(names->clusters.end()){};
    const bool is_named = names != nullptr && cluster != names->clusters.end();
    all[i].labels = label("envoy_cluster_name", is_named ? cluster->second : upstream);
  }
  return all;
}

// What ended is read first: it is never more than what began.
void add_listener(const ProcessView& view, size_t index, ListenerFigures& figures) {
  const config::Listener& listener = view.config->listeners[index];
  figures.has_tls = figures.has_tls || listener.tls.has_value();
  for (const auto& worker : view.counters) {
    const ListenerCounters& counters = *worker->listeners[index];
    uint64_t ended = 0, refused = 0;
    for (const Counter& each : counters.ended) ended += each.value();
    for (const Counter& each : counters.refused) refused += each.value();
    figures.connections_ended += ended;
    figures.connections_open += counters.accepted.value() + counters.resumed.value() - ended - refused;
    figures.connections += counters.admitted.value();
    figures.idle_timeouts += counters.ended[static_cast<size_t>(SessionEnd::kIdleTimeout)].value();
    figures.bytes_in += counters.bytes_in.value();
    figures.bytes_out += counters.bytes_out.value();
    figures.tls_handshakes += counters.tls_handshakes.value();
    figures.tls_resumed += counters.tls_resumed.value();
    if (!listener.http) continue;
    const HttpCounters& http = *worker->http_listeners[index];
    uint64_t over = 0;
    for (const Counter& each : http.ended) over += each.value();
    figures.requests_active += http.requests.value() - over;
    figures.requests += http.requests.value();
    figures.connections_h1 += http.connections_h1.value();
    figures.connections_h2 += http.connections_h2.value();
    for (size_t i = 0; i < figures.statuses.size(); ++i) figures.statuses[i] += http.statuses[i].value();
    const RouteLatencies& latencies = *worker->latencies[index];
    figures.request_time.add(latencies.others->duration);
    for (size_t r = 0; r < latencies.by_route.size(); ++r) {
      if (latencies.has_own(r)) figures.request_time.add(latencies.by_route[r]->duration);
    }
  }
}

// Envoy has no colons in the names of listeners.
std::string address_label(const config::Listener& listener) {
  std::string text = listener.addresses.empty() ? listener.name : listener.addresses.front().text();
  std::replace(text.begin(), text.end(), ':', '_');
  return label("envoy_listener_address", text);
}

// The `stat_prefix` of a control plane, else the listener's name.
std::string prefix_of(const config::Listener& listener, const std::unordered_map<std::string, std::string>* prefixes) {
  if (prefixes == nullptr || listener.addresses.empty()) return listener.name;
  const auto found = prefixes->find(listener.addresses.front().text());
  return found == prefixes->end() || found->second.empty() ? listener.name : found->second;
}

using ListenersByLabel = std::map<std::string, ListenerFigures>;

struct AllListeners {
  ListenersByLabel http, tcp, listeners;
};

AllListeners collect_listeners(const ProcessView& view, const xds::StatNames* names) {
  AllListeners all;
  for (size_t i = 0; i < view.config->listeners.size(); ++i) {
    const config::Listener& listener = view.config->listeners[i];
    add_listener(view, i, all.listeners[address_label(listener)]);
    if (listener.http) {
      const std::string prefix = prefix_of(listener, names != nullptr ? &names->http_prefixes : nullptr);
      add_listener(view, i, all.http[label("envoy_http_conn_manager_prefix", prefix)]);
    } else if (listener.tcp) {
      const std::string prefix = prefix_of(listener, names != nullptr ? &names->tcp_prefixes : nullptr);
      add_listener(view, i, all.tcp[label("envoy_tcp_prefix", prefix)]);
    }
  }
  return all;
}

std::vector<Named<ListenerFigures>> listed(ListenersByLabel&& by_label) {
  std::vector<Named<ListenerFigures>> all;
  for (auto& [labels, figures] : by_label) all.push_back({labels, figures});
  return all;
}

void add_control_plane(const XdsCounters& counters, ServerFigures& figures) {
  const auto clusters = static_cast<size_t>(xds::ResourceKind::kCluster);
  const auto listeners = static_cast<size_t>(xds::ResourceKind::kListener);
  figures.has_control_plane = true;
  figures.is_connected = counters.stream.connected.value() != 0;
  figures.accepted_clusters = counters.accepted[clusters].value();
  figures.rejected_clusters = counters.rejected[clusters].value();
  figures.accepted_listeners = counters.accepted[listeners].value();
  figures.rejected_listeners = counters.rejected[listeners].value();
}

ServerFigures collect_server(const EnvoyStatsSource& source, const xds::StatNames* names) {
  const ProcessView& view = source.view;
  ServerFigures figures{.is_live = source.is_live,
                        .uptime_s = source.uptime_s,
                        .workers = view.counters.size(),
                        .connections = source.connections,
                        .resident_bytes = source.resident_bytes,
                        .active_clusters = view.config->upstreams.size(),
                        .active_listeners = view.config->listeners.size()};
  const struct mallinfo2 heap = mallinfo2();
  figures.allocated_bytes = heap.uordblks + heap.hblkhd;
  figures.heap_bytes = heap.arena + heap.hblkhd;
  for (const auto& worker : view.counters) {
    figures.allocated_bytes += worker->gauges->pool_out_bytes.value();
    figures.heap_bytes += worker->gauges->pool_mapped_bytes.value();
  }
  if (view.xds != nullptr) add_control_plane(*view.xds, figures);
  if (names != nullptr) {
    figures.active_clusters = names->active_clusters;
    figures.warming_clusters = names->warming_clusters;
    figures.active_listeners = names->active_listeners;
    figures.warming_listeners = names->warming_listeners;
  }
  return figures;
}

// ---- Writing ----

std::string_view type_name(StatType type) {
  constexpr std::array<std::string_view, 3> kNames = {"counter", "gauge", "histogram"};
  return kNames[static_cast<size_t>(type)];
}

class Page {
 public:
  Page(bool used_only, size_t bytes) : used_only_(used_only) { out_.reserve(bytes); }

  // All series of a metric together, as the format demands.
  template <class Figures>
  void write(std::string_view scope, std::span<const EnvoyStat<Figures>> stats, const std::vector<Named<Figures>>& of) {
    for (const EnvoyStat<Figures>& stat : stats) {
      name_ = metric_name(scope, stat.name);
      is_begun_ = false;
      for (const Named<Figures>& each : of) {
        if (stat.applies == nullptr || stat.applies(each.figures)) write_one(stat, each.figures, each.labels);
      }
    }
  }

  std::string text() && { return std::move(out_); }

 private:
  template <class Figures>
  void write_one(const EnvoyStat<Figures>& stat, const Figures& figures, std::string_view labels) {
    const auto begin = [&] {
      if (std::exchange(is_begun_, true)) return;
      absl::StrAppend(&out_, "# HELP ", name_, " ", stat.help, "\n# TYPE ", name_, " ", type_name(stat.type), "\n");
    };
    if (stat.value.number != nullptr) {
      const uint64_t value = stat.value.number(figures);
      if (used_only_ && value == 0) return;
      begin();
      absl::StrAppend(&out_, name_, "{", labels, "} ", value, "\n");
    } else if (stat.value.by_class != nullptr) {
      const std::array<uint64_t, 6>& values = stat.value.by_class(figures);
      for (size_t i = 1; i < values.size(); ++i) {
        if (used_only_ && values[i] == 0) continue;
        begin();
        absl::StrAppend(&out_, name_, "{envoy_response_code_class=\"", i, "\",", labels, "} ", values[i], "\n");
      }
    } else if (const LatencySum& times = stat.value.times(figures); times.count() > 0) {
      begin();
      histogram(times, labels);
    }
  }

  void histogram(const LatencySum& times, std::string_view labels) {
    uint64_t up_to = 0;
    size_t next = 0;
    for (const EnvoyBucket& bucket : envoy_buckets()) {
      for (; next <= bucket.last; ++next) up_to += times.buckets[next];
      absl::StrAppend(&out_, name_, "_bucket{", labels, ",le=\"", bucket.le, "\"} ", up_to, "\n");
    }
    for (; next < times.buckets.size(); ++next) up_to += times.buckets[next];
    absl::StrAppend(&out_, name_, "_bucket{", labels, ",le=\"+Inf\"} ", up_to, "\n", name_, "_sum{", labels, "} ",
                    times.sum_ms, "\n");
    absl::StrAppend(&out_, name_, "_count{", labels, "} ", up_to, "\n");
  }

  const bool used_only_;
  std::string out_;
  std::string name_;
  bool is_begun_ = false;  // The lines before the series of this metric are written.
};

}  // namespace

std::span<const EnvoyBucket> envoy_buckets() {
  static const std::vector<EnvoyBucket> buckets = make_buckets();
  return buckets;
}

std::string envoy_stats_page(const EnvoyStatsSource& source, bool used_only) {
  const std::shared_ptr<const xds::StatNames> names =
      source.view.xds_dump != nullptr ? source.view.xds_dump->stat_names() : nullptr;
  const std::vector<Named<ClusterFigures>> clusters = collect_clusters(source, names.get());
  AllListeners listeners = collect_listeners(source.view, names.get());
  const auto used = std::count_if(clusters.begin(), clusters.end(), [](const auto& c) { return c.figures.is_used(); });
  Page page(used_only, 16384 + 256 * clusters.size() + 4096 * static_cast<size_t>(used));
  page.write("cluster.", cluster_stats(), clusters);
  page.write("http.", http_stats(), listed(std::move(listeners.http)));
  page.write("tcp.", tcp_stats(), listed(std::move(listeners.tcp)));
  page.write("listener.", listener_stats(), listed(std::move(listeners.listeners)));
  page.write("", server_stats(), std::vector<Named<ServerFigures>>{{"", collect_server(source, names.get())}});
  return std::move(page).text();
}

}  // namespace sluice
