#pragma once

#include <memory>
#include <vector>

#include "net/helper_threads.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_service.h"
#include "proxy/config/model/resolve.h"

namespace sluice {

/// A worker's handshaker services, one per address. Shut them down like a single HandshakerService.
class HandshakerServices {
 public:
  /// `lookup_threads` are passed to each HandshakerService.
  explicit HandshakerServices(Worker& worker, HelperThreads* lookup_threads = nullptr)
      : worker_(worker), lookup_threads_(lookup_threads) {}

  /// The service at `address`, created if necessary. Precondition: address.is_set().
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
  std::vector<Entry> entries_;  // Few, so a linear search suffices.
};

}  // namespace sluice
