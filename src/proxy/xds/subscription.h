// The client's side of the xDS protocol (Envoy's documentation, "xDS REST and gRPC protocol"), without a connection.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/xds/discovery.h"
#include "proxy/xds/lifetimes.h"
#include "proxy/xds/resource_kind.h"
#include "proxy/xds/resource_store.h"

namespace sluice::xds {

/// Requests resources on one stream after the other, and accepts or rejects responses. Clusters and listeners are
/// requested all; endpoints, routes, secrets and extensions by the names that those refer to. Of a response that is
/// rejected for some of its resources, the others take effect, as in Envoy.
class Subscription {
 public:
  /// Makes the resources of `candidate` effective, or returns why that is impossible and adds the resources that the
  /// reason is about to `blamed`, as far as they are known.
  using Apply = std::function<absl::Status(const ResourceStore& candidate, ResourceKeys& blamed)>;
  /// Sends a message on the stream.
  using Send = std::function<void(std::string message)>;

  /// The times to live of what `start` has begin at `now_ms`.
  Subscription(NodeIdentity node, bool is_delta, ResourceStore start, uint64_t now_ms, Apply apply,
               XdsCounters& counters);

  bool is_delta() const { return is_delta_; }
  /// A stream is open: requests everything.
  void begin(Send send);
  /// A message has arrived. Returns an error if the stream must end.
  absl::Status on_message(std::string_view message, uint64_t now_ms);
  /// The stream is lost: nothing is sent any more.
  void end() { send_ = nullptr; }
  /// When expire() is to be called; nothing if no resource has a time to live.
  std::optional<uint64_t> due_ms() const { return lifetimes_.due_ms(); }
  /// Removes the resources whose time to live is over.
  void expire(uint64_t now_ms);
  /// The resources that are in effect.
  const ResourceStore& store() const { return store_; }

 private:
  struct Kind {
    std::string version;          // The last one that was accepted.
    std::string nonce;            // Of the last response on this stream.
    std::set<std::string> names;  // Those that this stream has requested.
    bool requested = false;       // On this stream.
  };

  Kind& of(ResourceKind kind) { return kinds_[static_cast<size_t>(kind)]; }
  const Kind& of(ResourceKind kind) const { return kinds_[static_cast<size_t>(kind)]; }
  // A resource of a response, or a sign of life, with the time that it lives from then on.
  struct Renewal {
    std::string name;
    std::optional<uint64_t> ttl_ms;
  };
  // What became of a response.
  struct Taken {
    absl::Status status;
    std::set<std::string> kept = {};  // With an error: the resources that cannot be used, and stay as they were.
    bool is_in_part = false;          // With an error: all other changes are in effect.
  };
  Taken take(ResourceKind kind, const Response& response, uint64_t now_ms);
  bool take_rest(ResourceKind kind, ResourceKeys blamed, ResourceStore& candidate, Taken& taken);
  std::set<std::string> put_back(ResourceKind kind, const ResourceKeys& blamed, ResourceStore& candidate) const;
  absl::Status change(ResourceKind kind, const Response& response, ResourceStore& candidate,
                      std::vector<Renewal>& renewals) const;
  absl::Status renew(ResourceKind kind, const Response& response, const SentResource& sent,
                     const ResourcePointer& before, ResourceStore& candidate, std::vector<Renewal>& renewals) const;
  void drop_unwanted(ResourceStore& candidate);
  void respond(ResourceKind kind, const Response& response, const Taken& taken);
  void request_names();
  void request(ResourceKind kind, std::string_view error);
  void request_delta(ResourceKind kind, std::string_view nonce, std::string_view error);
  std::string_view node_once();

  const std::string node_;
  const bool is_delta_;
  ResourceStore store_;
  Apply apply_;
  XdsCounters& counters_;
  Send send_;
  bool introduced_ = false;  // The node was sent on this stream.
  std::array<Kind, kResourceKindCount> kinds_;
  WantedNames wanted_;
  Lifetimes lifetimes_;
};

}  // namespace sluice::xds
