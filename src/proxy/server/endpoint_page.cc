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
constexpr std::string_view kExpectedChanges =
    "expected state=enabled, state=draining or state=disabled, weight=N or weight=configured, and perhaps keep=true";

// The changes that a request contains.
struct WantedChange {
  std::optional<EndpointMode> mode;
  std::optional<uint32_t> weight;  // 0: as configured.
  std::optional<bool> keep;
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
  if (name == "keep") {
    if (value != "true" && value != "false") return wrong("true or false");
    wanted.keep = value == "true";
    return absl::OkStatus();
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
  if (!wanted.mode && !wanted.weight) return absl::InvalidArgumentError(kExpectedChanges);
  return wanted;
}

std::string words_of(const EndpointChange& change) {
  return absl::StrCat(endpoint_mode_name(change.mode), change.weight == 0
                                                           ? std::string(", with its configured weight")
                                                           : absl::StrCat(", with weight ", change.weight));
}

void make_changes(UpstreamState& upstream, const std::vector<uint32_t>& slots, const WantedChange& wanted,
                  const std::string& by) {
  for (const uint32_t slot : slots) {
    EndpointChange change = upstream.changes().of(slot).value_or(EndpointChange());
    change.mode = wanted.mode.value_or(change.mode);
    change.weight = wanted.weight.value_or(change.weight);
    change.keep = wanted.keep.value_or(change.keep);
    change.at_s = ::time(nullptr);
    change.by = by;
    upstream.changes().make(slot, change, monotonic_ms());
    log_line(LogLevel::kInfo, absl::StrCat("admin: ", upstream.describe(slot), " of upstream ", upstream.config().name,
                                           " is ", words_of(change), ", as ", by, " has requested",
                                           !change.any() ? ""
                                           : change.keep ? "; reloads keep that"
                                                         : "; a reload ends that"));
  }
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

AdminResponse endpoint_page(const AdminRequest& request, const std::vector<std::shared_ptr<UpstreamState>>& upstreams,
                            AdminCounters& counters) {
  const absl::StatusOr<EndpointPath> path = read_path(request.path);
  if (!path.ok()) return refusal(404, path.status().message());
  UpstreamState* found = nullptr;
  std::vector<std::string> names;
  for (const auto& each : upstreams) {
    names.push_back(each->config().name);
    if (each->config().name == path->upstream) found = each.get();
  }
  if (!found) {
    return refusal(404, absl::StrCat("there is no upstream ", config::in_quotes(path->upstream), "; the upstreams are ",
                                     absl::StrJoin(names, ", ")));
  }
  const EndpointView view(found->slots());
  std::vector<uint32_t> slots;
  std::vector<std::string_view> addresses;
  for (const uint32_t slot : view.present()) {
    addresses.push_back(found->slots().text(slot));
    const std::string name = found->config().endpoints[found->slots().configured(slot)].text();
    if (addresses.back() == path->endpoint || name == path->endpoint) slots.push_back(slot);
  }
  if (slots.empty()) {
    return refusal(404, absl::StrCat("upstream ", path->upstream, " has no endpoint ",
                                     config::in_quotes(path->endpoint), "; it has ", absl::StrJoin(addresses, ", ")));
  }
  if (request.method == "PUT" || request.method == "POST") {
    const absl::StatusOr<WantedChange> wanted = read_changes(request);
    if (!wanted.ok()) return refusal(400, wanted.status().message());
    make_changes(*found, slots, *wanted, request.peer);
    counters.endpoint_changes.add();
  }
  JsonWriter json;
  json.begin_object().member("upstream", found->config().name).key("addresses").begin_array();
  for (const uint32_t slot : slots) write_address(*found, slot, monotonic_ms(), json);
  json.end_array().end_object();
  return {.content_type = AdminResponse::kJson, .body = std::move(json).text()};
}

}  // namespace sluice
