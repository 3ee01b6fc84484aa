#pragma once

#include <string>
#include <vector>

#include "net/helper_threads.h"
#include "proxy/config/model/resolve.h"

namespace sluice {

/// Looks up the name of a handshaker service on a helper thread. A lookup reads files (/etc/resolv.conf, /etc/hosts)
/// and waits, which a worker must not do.
class HandshakerLookup {
 public:
  struct Result {
    std::vector<config::Address> addresses;
    std::string error;  ///< Why there are no addresses.
  };
  class Owner {
   public:
    virtual void on_looked_up(Result&& result) = 0;

   protected:
    ~Owner() = default;
  };

  /// `owner` must outlive the lookup, and `threads` the worker. Null `threads`: every lookup fails.
  HandshakerLookup(Owner& owner, HelperThreads* threads) : owner_(owner), threads_(threads) {}
  ~HandshakerLookup() { cancel(); }
  HandshakerLookup(const HandshakerLookup&) = delete;
  HandshakerLookup& operator=(const HandshakerLookup&) = delete;

  bool in_progress() const { return job_ != nullptr; }
  /// Starts a lookup. Owner::on_looked_up follows, even from within this call if lookups are impossible. Preconditions:
  /// `name` is a name, and !in_progress().
  void begin(const config::EndpointAddress& name, const config::Resolve& settings);
  /// Cancels the lookup in progress, if any. Its owner is not called.
  void cancel();

  /// Timeout of a lookup.
  static constexpr int kTimeoutMs = 5'000;

 private:
  class Job;

  Owner& owner_;
  HelperThreads* const threads_;
  Job* job_ = nullptr;  // The job of the lookup in progress, owned by the helper threads.
};

}  // namespace sluice
