#include "proxy/xds/subscription.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
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
// Until it is tried again to remove a resource whose time to live is over.
constexpr uint64_t kExpiryRetryMs = 10'000;
// A try can find further resources that cannot be used, as the reasons of one are bounded.
constexpr int kMaxPartialTries = 4;

// Whether a response has nothing but signs of life. It then says nothing of other resources.
bool is_sign_of_life(const Response& response) {
  return !response.resources.empty() && response.removed.empty() &&
         std::none_of(response.resources.begin(), response.resources.end(),
                      [](const SentResource& each) { return each.is_present; });
}

}  // namespace

Subscription::Subscription(NodeIdentity node, bool is_delta, ResourceStore start, uint64_t now_ms, Apply apply,
                           XdsCounters& counters)
    : node_(write_node(node)),
      is_delta_(is_delta),
      store_(std::move(start)),
      apply_(std::move(apply)),
      counters_(counters) {
  for (const KindInfo& info : kKinds) {
    for (const auto& [name, each] : store_.of(info.kind)) lifetimes_.renew(info.kind, name, each->ttl_ms, now_ms);
  }
}

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

absl::Status Subscription::on_message(std::string_view message, uint64_t now_ms) {
  const std::optional<Response> response = read_response(message, is_delta_);
  if (!response) return absl::InvalidArgumentError("it sent a message that is no discovery response");
  const std::optional<ResourceKind> kind = kind_of_type(response->type);
  if (!kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("it sent resources of the type ", config::in_quotes(response->type), ", which nobody requested"));
  }
  of(*kind).nonce = std::string(response->nonce);
  const Taken taken = take(*kind, *response, now_ms);
  respond(*kind, *response, taken);
  if (taken.status.ok() || taken.is_in_part) request_names();
  return absl::OkStatus();
}

Subscription::Taken Subscription::take(ResourceKind kind, const Response& response, uint64_t now_ms) {
  ResourceStore candidate = store_;
  std::vector<Renewal> renewals;
  if (absl::Status changed = change(kind, response, candidate, renewals); !changed.ok()) return {std::move(changed)};
  drop_unwanted(candidate);
  // Signs of life are frequent, and mapping all resources anew is slow.
  const bool is_same = is_sign_of_life(response) && candidate.of(kind) == store_.of(kind);
  ResourceKeys blamed;
  Taken taken{is_same ? absl::OkStatus() : apply_(candidate, blamed)};
  if (!taken.status.ok() && !take_rest(kind, std::move(blamed), candidate, taken)) return taken;
  for (const Renewal& each : renewals) {
    if (!taken.kept.contains(each.name)) lifetimes_.renew(kind, each.name, each.ttl_ms, now_ms);
  }
  store_ = std::move(candidate);
  if (taken.status.ok()) of(kind).version = std::string(response.version);
  lifetimes_.keep_only(store_);
  return taken;
}

// Puts back what cannot be used, and returns whether the other changes of `candidate` are in effect then.
bool Subscription::take_rest(ResourceKind kind, ResourceKeys blamed, ResourceStore& candidate, Taken& taken) {
  for (int tries = 0; tries < kMaxPartialTries; ++tries) {
    std::set<std::string> names = put_back(kind, blamed, candidate);
    if (names.empty()) return false;
    taken.kept.merge(names);
    if (std::as_const(candidate).of(kind) == std::as_const(store_).of(kind)) {
      // What has waited for it waits no longer. If that fails, it is as if nothing had come.
      if (std::exchange(store_.refused(), candidate.refused()) != candidate.refused()) (void)apply_(store_, blamed);
      return false;
    }
    drop_unwanted(candidate);
    blamed.clear();
    taken.is_in_part = apply_(candidate, blamed).ok();
    if (taken.is_in_part) return true;
  }
  return false;
}

// The version in use takes the place of each changed resource that is blamed, or that one refers to that is. Returns
// their names.
std::set<std::string> Subscription::put_back(ResourceKind kind, const ResourceKeys& blamed,
                                             ResourceStore& candidate) const {
  std::set<std::string> names;
  for (const auto& [owner, name] : blamed) {
    if (owner == kind) names.insert(name);
    if (const ResourcePointer resource = candidate.find(owner, name)) {
      names.merge(references_of(owner, resource->tree, kind));
    }
  }
  std::erase_if(names, [&](const auto& name) { return candidate.find(kind, name) == store_.find(kind, name); });
  for (const std::string& name : names) {
    const ResourcePointer before = store_.find(kind, name);
    if (before == nullptr) {
      candidate.of(kind).erase(name);
      candidate.refused().emplace(kind, name);
    } else {
      candidate.of(kind)[name] = before;
    }
  }
  return names;
}

absl::Status Subscription::change(ResourceKind kind, const Response& response, ResourceStore& candidate,
                                  std::vector<Renewal>& renewals) const {
  const ResourceStore kept_store = candidate;
  const ResourceStore::Resources& before = kept_store.of(kind);
  ResourceStore::Resources& resources = candidate.of(kind);
  // A response with all listeners or clusters leaves out those that are gone.
  if (!is_delta_ && !info_of(kind).by_name && !is_sign_of_life(response)) {
    resources.clear();
    std::erase_if(candidate.refused(), [&](const ResourceKey& each) { return each.first == kind; });
  }
  size_t values_left = kMaxResponseValues;
  for (const SentResource& sent : response.resources) {
    if (!sent.is_present) {
      const auto kept = before.find(sent.name);
      if (kept == before.end()) continue;
      if (absl::Status done = renew(kind, response, sent, kept->second, candidate, renewals); !done.ok()) return done;
      continue;
    }
    absl::StatusOr<ResourcePointer> read = read_resource(kind, sent, response.version, values_left);
    if (!read.ok()) return read.status();
    const auto same = before.find((*read)->name);
    const bool unchanged = same != before.end() && same->second->bytes == (*read)->bytes &&
                           same->second->version == (*read)->version && same->second->ttl_ms == (*read)->ttl_ms;
    renewals.push_back({.name = (*read)->name, .ttl_ms = (*read)->ttl_ms});
    resources[(*read)->name] = unchanged ? same->second : *read;
    candidate.refused().erase({kind, (*read)->name});
  }
  for (const std::string_view name : response.removed) {
    if (const auto gone = resources.find(name); gone != resources.end()) resources.erase(gone);
    candidate.refused().erase({kind, std::string(name)});
  }
  return absl::OkStatus();
}

// A sign of life counts only for the version that is there.
absl::Status Subscription::renew(ResourceKind kind, const Response& response, const SentResource& sent,
                                 const ResourcePointer& before, ResourceStore& candidate,
                                 std::vector<Renewal>& renewals) const {
  if (sent.has_bad_ttl) {
    return absl::InvalidArgumentError(
        absl::StrCat(info_of(kind).label, " ", before->name, ": its time to live (ttl) is no duration"));
  }
  ResourcePointer& kept = candidate.of(kind)[before->name];
  kept = before;
  const std::string_view version = sent.version.empty() && !is_delta_ ? response.version : sent.version;
  if (version != (is_delta_ ? before->version : of(kind).version)) return absl::OkStatus();
  renewals.push_back({.name = before->name, .ttl_ms = sent.ttl_ms});
  if (before->ttl_ms == sent.ttl_ms) return absl::OkStatus();
  auto changed = std::make_shared<Resource>(*before);
  changed->ttl_ms = sent.ttl_ms;
  kept = std::move(changed);
  return absl::OkStatus();
}

// As in Envoy, the control plane is not told.
void Subscription::expire(uint64_t now_ms) {
  const std::vector<ResourceKey> expired = lifetimes_.take_expired(now_ms);
  if (expired.empty()) return;
  ResourceStore candidate = store_;
  for (const auto& [kind, name] : expired) candidate.of(kind).erase(name);
  drop_unwanted(candidate);
  ResourceKeys blamed;
  if (const absl::Status applied = apply_(candidate, blamed); !applied.ok()) {
    for (const auto& [kind, name] : expired) lifetimes_.renew(kind, name, kExpiryRetryMs, now_ms);
    return log_lines(LogLevel::kError,
                     absl::StrCat("xds: resources whose time to live is over cannot be removed: ", applied.message(),
                                  "; they stay for another ", kExpiryRetryMs / 1000, " s"));
  }
  store_ = std::move(candidate);
  lifetimes_.keep_only(store_);
  for (const auto& [kind, name] : expired) {
    counters_.expired.add();
    static LogLimit limit;
    if (!log_admits(limit, now_ms)) continue;
    log_line(LogLevel::kWarning, absl::StrCat("xds: ", info_of(kind).label, " ", name,
                                              ": removed: its time to live is over, and the control plane has not "
                                              "renewed it",
                                              left_out_text(limit)));
  }
  request_names();
}

// Nobody updates what is not requested any more.
void Subscription::drop_unwanted(ResourceStore& candidate) {
  for (const KindInfo& info : kKinds) {
    if (!info.by_name) continue;
    const std::set<std::string>& wanted = wanted_.of(candidate, info.kind);
    const auto is_unwanted = [&](const auto& each) { return !wanted.contains(each.first); };
    const ResourceStore::Resources& all = std::as_const(candidate).of(info.kind);
    if (all.size() > wanted.size() || std::any_of(all.begin(), all.end(), is_unwanted)) {
      std::erase_if(candidate.of(info.kind), is_unwanted);
    }
    std::erase_if(candidate.refused(),
                  [&](const ResourceKey& each) { return each.first == info.kind && !wanted.contains(each.second); });
  }
}

void Subscription::respond(ResourceKind kind, const Response& response, const Taken& taken) {
  const auto index = static_cast<size_t>(kind);
  std::string error;
  if (taken.status.ok()) {
    counters_.accepted[index].add();
    counters_.updated_s.set(static_cast<uint64_t>(std::time(nullptr)));
    counters_.from_cache.set(0);
  } else {
    counters_.rejected[index].add();
    error = std::string(taken.status.message().substr(0, kMaxErrorBytes));
    static LogLimit limit(1);  // A control plane may send what is rejected again and again.
    if (log_admits(limit, monotonic_ms())) {
      const std::string rest = taken.is_in_part ? absl::StrCat("; resources left as they were: ", taken.kept.size(),
                                                               "; the others are in effect")
                                                : "";
      log_lines(LogLevel::kError,
                absl::StrCat("xds: version ", config::in_quotes(response.version), " of the ", info_of(kind).label,
                             " is rejected: ", error, rest, left_out_text(limit)));
    }
  }
  is_delta_ ? request_delta(kind, response.nonce, error) : request(kind, error);
}

// Requests what the accepted clusters and listeners refer to.
void Subscription::request_names() {
  if (!send_) return;
  for (const KindInfo& info : kKinds) {
    if (!info.by_name) continue;
    Kind& kind = of(info.kind);
    const std::set<std::string>& wanted = wanted_.of(store_, info.kind);
    if (wanted == kind.names) continue;
    if (is_delta_) {
      request_delta(info.kind, {}, {});
    } else {
      kind.names = wanted;
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
  const bool changes_names = info_of(kind).by_name && nonce.empty();
  if (changes_names) {
    const std::set<std::string>& wanted = wanted_.of(store_, kind);
    std::set_difference(wanted.begin(), wanted.end(), state.names.begin(), state.names.end(),
                        std::back_inserter(request.subscribe));
    std::set_difference(state.names.begin(), state.names.end(), wanted.begin(), wanted.end(),
                        std::back_inserter(request.unsubscribe));
  }
  if (!state.requested) {
    for (const auto& [name, resource] : store_.of(kind)) request.known.emplace(name, resource->version);
  }
  send_(write_request(request));
  if (changes_names) state.names = wanted_.of(store_, kind);
}

}  // namespace sluice::xds
