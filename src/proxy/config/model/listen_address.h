// Which addresses listeners accept connections at.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "proxy/config/model/address.h"

namespace sluice::config {

struct Config;
struct Listener;

/// An address to listen on.
struct ListenAddress {
  Address address;
  bool both_families = false;  ///< Of `[::]`: whether IPv4 connections are accepted, too.

  bool operator==(const ListenAddress&) const = default;
};

/// Decides which address families the listeners of one configuration accept. `[::]` accepts IPv4, too, unless its
/// listener has `ipv6_only`, or some listener has an IPv4 address with the same port.
class ListenAddresses {
 public:
  /// Keeps nothing of `config`.
  explicit ListenAddresses(const Config& config);
  /// The addresses of a listener of the configuration, in their order.
  std::vector<ListenAddress> of(const Listener& listener) const;

 private:
  absl::flat_hash_set<uint16_t> ip4_ports_;
};

}  // namespace sluice::config
