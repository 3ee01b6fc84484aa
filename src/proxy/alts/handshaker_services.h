#pragma once

#include <memory>
#include <vector>

#include "net/helper_threads.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_service.h"
#include "proxy/config/model/resolve.h"

namespace sluice {

/// A worker's handshaker services, one for each address. They end as each of them does.
class HandshakerServices {
 public:
  /// `lookup_threads` as HandshakerService has them.
  explicit HandshakerServices(Worker& worker, HelperThreads* lookup_threads = nullptr)
      : worker_(worker), lookup_threads_(lookup_threads) {}

  /// Makes it if need be. Precondition: address.is_set().
  HandshakerService& at(const config::EndpointAddress& address);
  void close();
  bool idle() const;

 private:
  struct Entry {
    config::EndpointAddress address;
    std::unique_ptr<HandshakerService> service;
  };
  Worker& worker_;
  HelperThreads* const lookup_threads_;
  std::vector<Entry> entries_;  // Few.
};

}  // namespace sluice
