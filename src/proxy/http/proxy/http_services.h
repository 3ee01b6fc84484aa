#pragma once

#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/http/proxy/connection_pump.h"
#include "proxy/http/proxy/forward_queue.h"
#include "proxy/overload/worker_overload.h"

namespace sluice {

/// What the connections of one worker share, clients' and upstreams'.
class HttpServices {
 public:
  Worker& worker() { return worker_; }
  HandshakerServices& handshakers() { return handshakers_; }
  ConnectionPump& pump() { return pump_; }
  ForwardQueue& forward_queue() { return forward_queue_; }
  WorkerOverload& overload() { return overload_; }

 protected:
  HttpServices(Worker& loop, HandshakerServices& alts, ConnectionPump::Pump run,
               WorkerOverload& overload = WorkerOverload::none())
      : worker_(loop), handshakers_(alts), pump_(loop, run), forward_queue_(loop), overload_(overload) {}
  ~HttpServices() = default;
  HttpServices(const HttpServices&) = delete;
  HttpServices& operator=(const HttpServices&) = delete;

 private:
  Worker& worker_;
  HandshakerServices& handshakers_;
  ConnectionPump pump_;
  ForwardQueue forward_queue_;
  WorkerOverload& overload_;
};

}  // namespace sluice
