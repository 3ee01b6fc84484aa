#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/message/head.h"
#include "sluice/buffer.h"

namespace sluice {

/// A request to an authorizer that is under way. It owns itself.
class AuthorizerCall {
 public:
  enum class Outcome : uint8_t { kResponse, kFailed, kTimeout };

  class Caller {
   public:
    /// It is over, and may not be used any more. `head` and `body`, which may be moved from, are its response if there
    /// is one; the body of a 2xx response is left out. `error`: why there is none, a literal.
    virtual void on_authorizer(Outcome outcome, Head& head, Buffer& body, std::string_view error) = 0;

   protected:
    ~Caller() = default;
  };

  /// Gives it up. The caller is not notified.
  virtual void cancel() = 0;

 protected:
  ~AuthorizerCall() = default;
};

}  // namespace sluice
