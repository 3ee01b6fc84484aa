#include "proxy/config/load/validate_addresses.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/common/peer_address.h"
#include "proxy/config/load/validate_sharing.h"
#include "proxy/config/model/address_groups.h"

namespace sluice::config {
namespace {

class AddressChecker {
 public:
  AddressChecker(const Config& config, Report& report) : config_(config), report_(report) {}

  void check() {
    std::map<std::string, AddressIndex> seen;
    const AddressGroups groups(config_.listeners);
    for (const AddressIndex& index : all_addresses()) {
      const Address& address = address_at(index);
      const std::string path = address_path(index);
      if (!address.is_set()) {
        report_.error(path, "expected an address");
        continue;
      }
      const PeerAddress plain = PeerAddress::copy_of(address.data(), address.length());
      if (plain.unmapped() != plain) {
        report_.error(path, absl::StrCat("is an IPv4 address in the form of IPv6; write ", text_of(plain.unmapped())));
      }
      const bool kernel_chooses = address.kind() != Address::Kind::kUnix && address.port() == 0;
      if (kernel_chooses) continue;
      const auto [first, inserted] = seen.emplace(address.text(), index);
      if (inserted) continue;
      if (first->second.first == index.first) {
        report_.error(path, absl::StrCat(address.text(), " is listed twice"));
      } else if (std::string why = why_not_shared(groups, first->second.first, index.first); !why.empty()) {
        report_.error(path, absl::StrCat(address.text(), " is already the address of ",
                                         report_.with_place(item_path("listeners", first->second.first)), "; ", why));
      }
    }
    check_sharing(config_, report_);
    check_overlaps();
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      const Listener& listener = config_.listeners[i];
      const auto all_ip6 = [](const Address& address) {
        return address.is_set() && address.kind() == Address::Kind::kIp6 && address.is_wildcard();
      };
      if (listener.ipv6_only && std::none_of(listener.addresses.begin(), listener.addresses.end(), all_ip6)) {
        report_.error(item_path("listeners", i) + ".ipv6_only",
                      "has no effect without an address such as \"[::]:443\"");
      }
    }
  }

 private:
  // A place in the lists of addresses: the index of a listener, and of one of its addresses.
  using AddressIndex = std::pair<size_t, size_t>;

  const Address& address_at(AddressIndex index) const { return config_.listeners[index.first].addresses[index.second]; }

  std::string address_path(AddressIndex index) const {
    const std::string path = item_path("listeners", index.first) + ".address";
    return config_.listeners[index.first].addresses.size() == 1 ? path : item_path(path, index.second);
  }

  std::vector<AddressIndex> all_addresses() const {
    std::vector<AddressIndex> all;
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      for (size_t j = 0; j < config_.listeners[i].addresses.size(); ++j) all.emplace_back(i, j);
    }
    return all;
  }

  // Why two listeners may not have the same address; empty if they may.
  std::string why_not_shared(const AddressGroups& groups, size_t a, size_t b) const {
    if (config_.listeners[a].server_names.empty() && config_.listeners[b].server_names.empty()) {
      return "give all but one of the listeners at an address `server_names`";
    }
    return groups.same_group(a, b) ? "" : "listeners that share an address must have all their addresses in common";
  }

  // A connection to the narrower address would never reach the other listener, which is hardly what is meant.
  void check_overlaps() {
    std::map<std::tuple<Address::Kind, uint16_t, bool>, AddressIndex>
        first_of;  // by kind, port, and whether of all addresses
    for (const AddressIndex& index : all_addresses()) {
      const Address& address = address_at(index);
      if (!address.is_set() || address.kind() == Address::Kind::kUnix || address.port() == 0) continue;
      const auto other = first_of.find({address.kind(), address.port(), !address.is_wildcard()});
      if (other != first_of.end()) report_overlap(index, other->second);
      first_of.try_emplace({address.kind(), address.port(), address.is_wildcard()}, index);
    }
  }

  void report_overlap(AddressIndex later, AddressIndex earlier) {
    const Address& a = address_at(later);
    const Address& b = address_at(earlier);
    report_.error(address_path(later),
                  absl::StrCat("port ", a.port(), a.is_wildcard() ? " of all addresses includes " : " is included in ",
                               b.text(), ", the address of ", report_.with_place(item_path("listeners", earlier.first)),
                               "; use one of the two, or another port"));
  }

  const Config& config_;
  Report& report_;
};

}  // namespace

void check_addresses(const Config& config, Report& report) { AddressChecker(config, report).check(); }

}  // namespace sluice::config
