#include "proxy/xds/subscription.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/common/log_limit.h"
#include "proxy/common/suggestions.h"
#include "proxy/log/run_log.h"

namespace sluice::xds {
namespace {

static_assert(XdsCounters::kKinds == kResourceKindCount);

// A longer reason would not fit into what control planes log.
constexpr size_t kMaxErrorBytes = 4096;

}  // namespace

Subscription::Subscription(NodeIdentity node, bool is_delta, ResourceStore start, Apply apply, XdsCounters& counters)
    : node_(write_node(node)),
      is_delta_(is_delta),
      store_(std::move(start)),
      apply_(std::move(apply)),
      counters_(counters) {}

void Subscription::begin(Send send) {
  send_ = std::move(send);
  introduced_ = false;
  for (Kind& each : kinds_) each = {.version = std::move(each.version), .nonce = {}, .names = {}, .requested = false};
  for (const ResourceKind kind : {ResourceKind::kCluster, ResourceKind::kListener}) {
    is_delta_ ? request_delta(kind, {}, {}) : request(kind, {});
    of(kind).requested = true;
  }
  request_names();
}

std::string_view Subscription::node_once() { return std::exchange(introduced_, true) ? std::string_view() : node_; }

absl::Status Subscription::on_message(std::string_view message) {
  const std::optional<Response> response = read_response(message, is_delta_);
  if (!response) return absl::InvalidArgumentError("it sent a message that is no discovery response");
  const std::optional<ResourceKind> kind = kind_of_type(response->type);
  if (!kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("it sent resources of the type ", config::in_quotes(response->type), ", which nobody requested"));
  }
  of(*kind).nonce = std::string(response->nonce);
  const absl::Status taken = take(*kind, *response);
  respond(*kind, *response, taken);
  if (taken.ok()) request_names();
  return absl::OkStatus();
}

absl::Status Subscription::take(ResourceKind kind, const Response& response) {
  ResourceStore candidate = store_;
  if (absl::Status changed = change(kind, response, candidate); !changed.ok()) return changed;
  drop_unwanted(candidate);
  if (absl::Status applied = apply_(candidate); !applied.ok()) return applied;
  store_ = std::move(candidate);
  of(kind).version = std::string(response.version);
  return absl::OkStatus();
}

absl::Status Subscription::change(ResourceKind kind, const Response& response, ResourceStore& candidate) const {
  ResourceStore::Resources& resources = candidate.of(kind);
  const ResourceStore::Resources before = resources;
  // A response with all listeners or clusters leaves out those that are gone.
  if (!is_delta_ && !info_of(kind).by_name) resources.clear();
  size_t values_left = kMaxResponseValues;
  for (const SentResource& sent : response.resources) {
    if (!sent.is_present) {
      const auto kept = before.find(sent.name);
      if (kept != before.end()) resources[kept->first] = kept->second;
      continue;
    }
    absl::StatusOr<ResourcePointer> read = read_resource(kind, sent, response.version, values_left);
    if (!read.ok()) return read.status();
    const auto same = before.find((*read)->name);
    const bool unchanged =
        same != before.end() && same->second->bytes == (*read)->bytes && same->second->version == (*read)->version;
    resources[(*read)->name] = unchanged ? same->second : *read;
  }
  for (const std::string_view name : response.removed) {
    if (const auto gone = resources.find(name); gone != resources.end()) resources.erase(gone);
  }
  return absl::OkStatus();
}

// Nobody updates what is not requested any more.
void Subscription::drop_unwanted(ResourceStore& candidate) const {
  for (const KindInfo& info : kKinds) {
    if (!info.by_name) continue;
    const std::set<std::string> wanted = wanted_names(candidate, info.kind);
    std::erase_if(candidate.of(info.kind), [&](const auto& each) { return !wanted.contains(each.first); });
  }
}

void Subscription::respond(ResourceKind kind, const Response& response, const absl::Status& taken) {
  const auto index = static_cast<size_t>(kind);
  std::string error;
  if (taken.ok()) {
    counters_.accepted[index].add();
    counters_.updated_s.set(static_cast<uint64_t>(std::time(nullptr)));
    counters_.from_cache.set(0);
  } else {
    counters_.rejected[index].add();
    error = std::string(taken.message().substr(0, kMaxErrorBytes));
    static LogLimit limit(1);  // A control plane may send what is rejected again and again.
    if (log_admits(limit, monotonic_ms())) {
      log_lines(LogLevel::kError, absl::StrCat("xds: version ", config::in_quotes(response.version), " of the ",
                                               info_of(kind).label, " is rejected: ", error, left_out_text(limit)));
    }
  }
  is_delta_ ? request_delta(kind, response.nonce, error) : request(kind, error);
}

// Requests what the accepted clusters and listeners refer to.
void Subscription::request_names() {
  for (const KindInfo& info : kKinds) {
    if (!info.by_name) continue;
    Kind& kind = of(info.kind);
    std::set<std::string> wanted = wanted_names(store_, info.kind);
    if (wanted == kind.names) continue;
    if (is_delta_) {
      request_delta(info.kind, {}, {});
    } else {
      kind.names = std::move(wanted);
      request(info.kind, {});
    }
    kind.requested = true;
  }
}

void Subscription::request(ResourceKind kind, std::string_view error) {
  const Kind& state = of(kind);
  StateRequest request{
      .node = node_once(), .type = info_of(kind).type, .version = state.version, .nonce = state.nonce, .error = error};
  request.names.assign(state.names.begin(), state.names.end());
  send_(write_request(request));
}

void Subscription::request_delta(ResourceKind kind, std::string_view nonce, std::string_view error) {
  Kind& state = of(kind);
  DeltaRequest request{.node = node_once(), .type = info_of(kind).type, .nonce = nonce, .error = error};
  std::set<std::string> wanted = state.names;
  if (info_of(kind).by_name && nonce.empty()) {
    wanted = wanted_names(store_, kind);
    std::set_difference(wanted.begin(), wanted.end(), state.names.begin(), state.names.end(),
                        std::back_inserter(request.subscribe));
    std::set_difference(state.names.begin(), state.names.end(), wanted.begin(), wanted.end(),
                        std::back_inserter(request.unsubscribe));
  }
  if (!state.requested) {
    for (const auto& [name, resource] : store_.of(kind)) request.known.emplace(name, resource->version);
  }
  send_(write_request(request));
  state.names = std::move(wanted);
}

}  // namespace sluice::xds
