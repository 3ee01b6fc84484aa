#include "proxy/server/endpoint_page.h"

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "net/worker.h"
#include "proxy/admin/query.h"
#include "proxy/common/json_writer.h"
#include "proxy/common/suggestions.h"
#include "proxy/log/run_log.h"
#include "proxy/server/upstream_page.h"

namespace sluice {

namespace {

constexpr std::string_view kUpstreams = "/upstreams/", kEndpoints = "/endpoints/";
// As for weights in a configuration.
constexpr uint32_t kMaxEndpointWeight = 1000;
constexpr uint32_t kMaxEndpointPriority = 15;
constexpr std::string_view kExpectedChanges =
    "expected state=enabled, state=draining or state=disabled, weight=N or weight=configured, or add=true, and perhaps "
    "keep=true";

// The changes that a request contains.
struct WantedChange {
  std::optional<EndpointMode> mode;
  std::optional<uint32_t> weight;  // 0: as configured.
  std::optional<bool> keep;
  bool add = false;
  std::optional<uint32_t> priority;  // With `add` only.
};

// An endpoint as a request names it.
struct Place {
  UpstreamState& upstream;
  const std::vector<std::shared_ptr<WorkerCounters>>& counters;  // By worker.
  size_t index;                                                  // Of the upstream.
  std::string endpoint;
};

AdminResponse refusal(uint16_t status, std::string_view why) {
  return {.status = status, .body = absl::StrCat(why, "\n")};
}

absl::Status read_change(std::string_view name, const std::string& value, WantedChange& wanted) {
  const auto wrong = [&](std::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", expected, ", got ", config::in_quotes(value)));
  };
  if (name == "state") {
    for (const EndpointMode mode : {EndpointMode::kEnabled, EndpointMode::kDraining, EndpointMode::kDisabled}) {
      if (endpoint_mode_name(mode) == value) wanted.mode = mode;
    }
    return wanted.mode ? absl::OkStatus() : wrong("enabled, draining or disabled");
  }
  if (name == "weight") {
    uint32_t weight = 0;
    const bool configured = value == "configured";
    if (!configured && (!absl::SimpleAtoi(value, &weight) || weight < 1 || weight > kMaxEndpointWeight)) {
      return wrong(absl::StrCat("a number from 1 to ", kMaxEndpointWeight, ", or configured"));
    }
    wanted.weight = weight;
    return absl::OkStatus();
  }
  if (name == "priority") {
    uint32_t priority = 0;
    if (!absl::SimpleAtoi(value, &priority) || priority > kMaxEndpointPriority) {
      return wrong(absl::StrCat("a number from 0 to ", kMaxEndpointPriority));
    }
    wanted.priority = priority;
    return absl::OkStatus();
  }
  if (name == "keep") {
    if (value != "true" && value != "false") return wrong("true or false");
    wanted.keep = value == "true";
    return absl::OkStatus();
  }
  if (name == "add") {
    wanted.add = value == "true";
    return wanted.add ? absl::OkStatus() : wrong("true; DELETE removes an endpoint");
  }
  return absl::InvalidArgumentError(absl::StrCat(kExpectedChanges, "; got ", config::in_quotes(name)));
}

absl::StatusOr<WantedChange> read_changes(const AdminRequest& request) {
  const std::string_view body = absl::StripAsciiWhitespace(request.body);
  if (!body.empty() && !request.query.empty()) {
    return absl::InvalidArgumentError("the request has a query and a body; expected one of them");
  }
  const auto pairs = parse_query(body.empty() ? std::string_view(request.query) : body);
  if (!pairs.ok()) return pairs.status();
  WantedChange wanted;
  for (const auto& [name, value] : *pairs) {
    if (absl::Status status = read_change(name, value, wanted); !status.ok()) return status;
  }
  if (!wanted.mode && !wanted.weight && !wanted.add) return absl::InvalidArgumentError(kExpectedChanges);
  if (wanted.priority && !wanted.add) {
    return absl::InvalidArgumentError("priority is for add=true: the priority of an endpoint does not change");
  }
  return wanted;
}

// A DELETE has `keep` only, and no body.
absl::StatusOr<WantedChange> read_removal(const AdminRequest& request) {
  WantedChange wanted;
  const auto pairs = parse_query(request.query);
  if (!pairs.ok()) return pairs.status();
  for (const auto& [name, value] : *pairs) {
    if (name != "keep") {
      return absl::InvalidArgumentError(
          absl::StrCat("expected DELETE with keep=true, or with nothing; got ", config::in_quotes(name)));
    }
    if (absl::Status status = read_change(name, value, wanted); !status.ok()) return status;
  }
  if (!request.body.empty()) return absl::InvalidArgumentError("DELETE has no body: keep=true goes into the query");
  return wanted;
}

std::string words_of(const EndpointChange& change) {
  return absl::StrCat(endpoint_mode_name(change.mode), change.weight == 0
                                                           ? std::string(", with its configured weight")
                                                           : absl::StrCat(", with weight ", change.weight));
}

void log_change(const Place& place, const std::string& endpoint, std::string_view what, const EndpointChange& change,
                std::string_view at_reload) {
  log_line(LogLevel::kInfo, absl::StrCat("admin: ", endpoint, " of upstream ", place.upstream.config().name, " is ",
                                         what, ", as ", change.by, " has requested", at_reload.empty() ? "" : "; ",
                                         at_reload.empty() ? ""
                                         : change.keep     ? "reloads keep that"
                                                           : at_reload));
}

// `before`: the change that the endpoint has now.
EndpointChange combined(EndpointChange before, const WantedChange& wanted, const AdminRequest& request) {
  before.mode = wanted.mode.value_or(before.mode);
  before.weight = wanted.weight.value_or(before.weight);
  before.keep = wanted.keep.value_or(before.keep);
  before.at_s = ::time(nullptr);
  before.by = request.peer;
  return before;
}

void make_changes(const Place& place, const std::vector<uint32_t>& slots, const WantedChange& wanted,
                  const AdminRequest& request) {
  UpstreamState& upstream = place.upstream;
  for (const uint32_t slot : slots) {
    const EndpointChange change = combined(upstream.changes().of(slot).value_or(EndpointChange()), wanted, request);
    upstream.changes().make(slot, change, monotonic_ms());
    log_change(place, upstream.describe(slot), words_of(change), change, change.any() ? "a reload ends that" : "");
  }
}

// The present slots of an endpoint: those of its address, or all those of its name.
std::vector<uint32_t> find_slots(const Place& place, const EndpointView& view) {
  const EndpointTable& table = place.upstream.slots();
  std::vector<uint32_t> slots;
  for (const uint32_t slot : view.present()) {
    if (table.text(slot) == place.endpoint || table.name(slot) == place.endpoint) slots.push_back(slot);
  }
  return slots;
}

AdminResponse no_such_endpoint(const Place& place, const EndpointView& view) {
  std::vector<std::string_view> addresses;
  for (const uint32_t slot : view.present()) addresses.push_back(place.upstream.slots().text(slot));
  return refusal(404, absl::StrCat("upstream ", place.upstream.config().name, " has no endpoint ",
                                   config::in_quotes(place.endpoint), "; it has ",
                                   addresses.empty() ? "none now" : absl::StrJoin(addresses, ", "),
                                   "; a PUT with add=true adds an address"));
}

AdminResponse show(const Place& place) {
  const EndpointView view(place.upstream.slots());
  JsonWriter json;
  json.begin_object().member("upstream", place.upstream.config().name).key("addresses").begin_array();
  for (const uint32_t slot : find_slots(place, view)) write_address(place.upstream, slot, monotonic_ms(), json);
  json.end_array().end_object();
  return {.content_type = AdminResponse::kJson, .body = std::move(json).text()};
}

AdminResponse add(const Place& place, const WantedChange& wanted, const AdminRequest& request) {
  UpstreamState& upstream = place.upstream;
  const absl::StatusOr<config::Address> address = config::Address::parse(place.endpoint);
  const bool usable = address.ok() && (address->kind() == config::Address::Kind::kUnix || address->port() != 0);
  if (!usable || address->text() != place.endpoint) {
    return refusal(400, absl::StrCat("expected an address to add, such as 10.0.0.3:9000 or unix:/run/app.sock, got ",
                                     config::in_quotes(place.endpoint),
                                     !usable ? "; names are for the configuration"
                                             : absl::StrCat("; write it as ", address->text())));
  }
  if (wanted.weight == 0) return refusal(400, "weight=configured is for endpoints that are configured");
  const auto reset = [&](uint32_t slot) {
    for (const auto& worker : place.counters)
      worker->upstreams[place.index][upstream.slots().configured(slot)]->reset();
  };
  const bool restores = upstream.slots().find_removed(place.endpoint).has_value();
  if (restores && wanted.priority) {
    return refusal(400, absl::StrCat(place.endpoint, " is configured, so its priority cannot be another one"));
  }
  EndpointChange change = combined({}, wanted, request);
  if (!restores) change.weight = 0;
  const absl::StatusOr<uint32_t> added = upstream.changes().add(
      {*address, wanted.weight.value_or(1), wanted.priority.value_or(0)}, change, monotonic_ms(), reset);
  if (!added.ok()) return refusal(409, added.status().message());
  const std::string words =
      absl::StrCat("added", restores ? " again" : absl::StrCat(", with weight ", wanted.weight.value_or(1)),
                   change.mode == EndpointMode::kEnabled ? "" : ", ",
                   change.mode == EndpointMode::kEnabled ? "" : endpoint_mode_name(change.mode));
  log_change(place, place.endpoint, words, change, restores ? "" : "a reload removes it");
  return show(place);
}

AdminResponse remove(const Place& place, const AdminRequest& request) {
  const absl::StatusOr<WantedChange> wanted = read_removal(request);
  if (!wanted.ok()) return refusal(400, wanted.status().message());
  EndpointTable& table = place.upstream.slots();
  const EndpointView view(table);
  const std::vector<uint32_t> slots = find_slots(place, view);
  if (slots.empty()) return no_such_endpoint(place, view);
  for (const uint32_t slot : slots) {
    if (!table.is_resolved(slot)) continue;
    return refusal(409, absl::StrCat(table.describe(slot),
                                     " comes from a name, which would bring it back: use "
                                     "state=disabled, or remove it from the name or from the configuration"));
  }
  const EndpointChange change = combined({}, *wanted, request);
  for (const uint32_t slot : slots) {
    place.upstream.changes().remove(slot, change);
    log_change(place, table.text(slot), "removed", change, table.is_added(slot) ? "" : "a reload brings it back");
  }
  return show(place);
}

// A PUT or POST.
AdminResponse change(const Place& place, const AdminRequest& request) {
  const absl::StatusOr<WantedChange> wanted = read_changes(request);
  if (!wanted.ok()) return refusal(400, wanted.status().message());
  const EndpointView view(place.upstream.slots());
  const std::vector<uint32_t> slots = find_slots(place, view);
  if (slots.empty()) return wanted->add ? add(place, *wanted, request) : no_such_endpoint(place, view);
  for (const uint32_t slot : slots) {
    const uint32_t priority = place.upstream.slots().priority(slot);
    if (wanted->priority.value_or(priority) == priority) continue;
    return refusal(409, absl::StrCat(place.upstream.describe(slot), " is there already, with priority ", priority,
                                     ": remove it first"));
  }
  make_changes(place, slots, *wanted, request);
  return show(place);
}

struct EndpointPath {
  std::string upstream, endpoint;
};

absl::StatusOr<EndpointPath> read_path(std::string_view path) {
  path.remove_prefix(kUpstreams.size());
  const size_t middle = path.find(kEndpoints);
  if (middle == std::string_view::npos) return absl::InvalidArgumentError(absl::StrCat("expected ", kEndpointPage));
  absl::StatusOr<std::string> upstream = percent_decoded(path.substr(0, middle));
  absl::StatusOr<std::string> endpoint = percent_decoded(path.substr(middle + kEndpoints.size()));
  if (!upstream.ok()) return upstream.status();
  if (!endpoint.ok()) return endpoint.status();
  return EndpointPath{*std::move(upstream), *std::move(endpoint)};
}

}  // namespace

bool is_endpoint_page(std::string_view path) { return path.starts_with(kUpstreams); }

AdminResponse endpoint_page(const AdminRequest& request, const ProcessView& view, AdminCounters& counters) {
  const absl::StatusOr<EndpointPath> path = read_path(request.path);
  if (!path.ok()) return refusal(404, path.status().message());
  std::optional<size_t> found;
  std::vector<std::string> names;
  for (const auto& each : view.upstreams) {
    if (each->config().name == path->upstream) found = names.size();
    names.push_back(each->config().name);
  }
  if (!found) {
    return refusal(404, absl::StrCat("there is no upstream ", config::in_quotes(path->upstream), "; the upstreams are ",
                                     absl::StrJoin(names, ", ")));
  }
  const Place place{*view.upstreams[*found], view.counters, *found, path->endpoint};
  if (request.method == "GET" || request.method == "HEAD") {
    const EndpointView present(place.upstream.slots());
    return find_slots(place, present).empty() ? no_such_endpoint(place, present) : show(place);
  }
  AdminResponse response = request.method == "DELETE" ? remove(place, request) : change(place, request);
  if (response.status == 200) counters.endpoint_changes.add();
  return response;
}

}  // namespace sluice
