#include "proxy/alts/handshaker_services.h"

#include <algorithm>

namespace sluice {

HandshakerService& HandshakerServices::at(const config::EndpointAddress& address) {
  for (const Entry& entry : entries_) {
    if (entry.address == address) return *entry.service;
  }
  entries_.push_back({address, std::make_unique<HandshakerService>(worker_, address, lookup_threads_)});
  return *entries_.back().service;
}

void HandshakerServices::close() {
  for (const Entry& entry : entries_) entry.service->close();
}

bool HandshakerServices::idle() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.service->idle(); });
}

}  // namespace sluice
