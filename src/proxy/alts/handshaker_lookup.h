#pragma once

#include <string>
#include <vector>

#include "net/helper_threads.h"
#include "proxy/config/model/resolve.h"

namespace sluice {

/// Looks up the name of a handshaker service on a helper's thread, since what it reads (/etc/resolv.conf, /etc/hosts)
/// and waits for is nothing for a worker.
class HandshakerLookup {
 public:
  struct Answer {
    std::vector<config::Address> addresses;
    std::string error;  ///< Why there is none.
  };
  class Owner {
   public:
    virtual void on_looked_up(Answer&& answer) = 0;

   protected:
    ~Owner() = default;
  };

  /// `threads` outlive the worker. Null: names are not looked up.
  HandshakerLookup(Owner& owner, HelperThreads* threads) : owner_(owner), threads_(threads) {}
  ~HandshakerLookup() { cancel(); }
  HandshakerLookup(const HandshakerLookup&) = delete;
  HandshakerLookup& operator=(const HandshakerLookup&) = delete;

  bool under_way() const { return job_ != nullptr; }
  /// Owner::on_looked_up follows, at once where nothing can be looked up. Preconditions: a name, and !under_way().
  void begin(const config::EndpointAddress& name, const config::Resolve& settings);
  /// Nothing is heard of it any more.
  void cancel();

  /// Until there is an answer.
  static constexpr int kPatienceMs = 5'000;

 private:
  class Job;

  Owner& owner_;
  HelperThreads* const threads_;
  Job* job_ = nullptr;  // The helpers', while it is under way.
};

}  // namespace sluice
