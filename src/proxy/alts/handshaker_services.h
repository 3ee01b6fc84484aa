#pragma once

#include <memory>
#include <vector>

#include "net/worker.h"
#include "proxy/alts/handshaker_service.h"
#include "proxy/config/address.h"

namespace sluice {

/// A worker's handshaker services, one for each address. They end as each of them does.
class HandshakerServices {
 public:
  explicit HandshakerServices(Worker& worker) : worker_(worker) {}

  /// Makes it if need be. Precondition: address.is_set().
  HandshakerService& at(const config::Address& address);
  void close();
  bool idle() const;

 private:
  struct Entry {
    config::Address address;
    std::unique_ptr<HandshakerService> service;
  };
  Worker& worker_;
  std::vector<Entry> entries_;  // Few.
};

}  // namespace sluice
