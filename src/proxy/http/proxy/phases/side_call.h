#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/message/head.h"
#include "sluice/buffer.h"

namespace sluice {

/// A request to another server, such as an authorizer, that is under way while a client's request waits. It owns
/// itself.
class SideCall {
 public:
  enum class Outcome : uint8_t { kResponse, kFailed, kTimeout };

  class Caller {
   public:
    /// It is over, and may not be used any more. `head` and `body`, which may be moved from, are its response if there
    /// is one; see the function that began it. `error`: why there is none, a literal.
    virtual void on_side_call(Outcome outcome, Head& head, Buffer& body, std::string_view error) = 0;

   protected:
    ~Caller() = default;
  };

  /// Gives it up. The caller is not notified.
  virtual void cancel() = 0;

 protected:
  ~SideCall() = default;
};

}  // namespace sluice
