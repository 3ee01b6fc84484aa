// Names of endpoints, and how they are resolved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// The address of an endpoint: a socket address, or a host name with a port, which is resolved at run time.
class EndpointAddress {
 public:
  /// No address: is_set() is false.
  EndpointAddress() = default;
  EndpointAddress(const Address& address) : address_(address) {}

  /// Parses the forms that Address::parse accepts, and host names as in `app.internal:8080`. Port 0 is accepted.
  static absl::StatusOr<EndpointAddress> parse(std::string_view text);

  bool is_set() const { return is_name() || address_.is_set(); }
  bool is_name() const { return !host_.empty(); }
  /// Not set for a name.
  const Address& address() const { return address_; }
  /// The host name, without the port; empty for an address.
  const std::string& host() const { return host_; }
  uint16_t port() const { return is_name() ? port_ : address_.port(); }
  /// In the form that parse() reads.
  std::string text() const;

  bool operator==(const EndpointAddress&) const = default;

 private:
  Address address_;
  std::string host_;
  uint16_t port_ = 0;
};

/// The name of SRV records (RFC 2782): `_http._tcp.example.com`.
class ServiceName {
 public:
  /// No name: empty() is true.
  ServiceName() = default;

  static absl::StatusOr<ServiceName> parse(std::string_view text);

  bool empty() const { return name_.empty(); }
  const std::string& text() const { return name_; }

  bool operator==(const ServiceName&) const = default;

 private:
  std::string name_;
};

/// Which addresses of a name are looked up.
enum class AddressFamily : uint8_t { kAuto, kIp4, kIp6 };

/// How names are resolved. A name is looked up afresh when its records expire.
struct Resolve {
  std::vector<Address> servers;                 ///< Name servers. Empty: those of /etc/resolv.conf.
  AddressFamily family = AddressFamily::kAuto;  ///< kAuto: both.
  Duration min_ttl = std::chrono::seconds(1);   ///< Lower bound on the TTL of the records.
  Duration max_ttl = std::chrono::seconds(60);  ///< Upper bound on the TTL of the records.
  Duration timeout = std::chrono::seconds(2);   ///< Of one attempt.
  uint32_t attempts = 2;                        ///< Attempts before a lookup counts as failed.
  uint32_t max_addresses = 64;                  ///< Addresses used of one name; any more are left out.

  bool operator==(const Resolve&) const = default;
};

}  // namespace sluice::config
