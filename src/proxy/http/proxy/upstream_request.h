#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/http/proxy/upstream_caller.h"

namespace sluice {

class HttpUpstream;

/// The sender of one request to an upstream, from the request for a connection until the release of the stream.
///
/// call() leads to one of on_upstream, on_connect_failed (then call() once more, or give up), and on_no_upstream.
class UpstreamRequest : public UpstreamCaller {
 private:
  // First, as there is room behind the base class.
  bool endpoint_counted_ = false;
  uint16_t place_ = 0;            // In the upstream's ConcurrencyLimit; 0: none.
  bool outcome_counted_ = false;  // Of the request on its connection, in EndpointCounters.

 protected:
  bool waiting_ = false;  // Waiting for a turn of the loop, or for a connection.

 public:
  // UpstreamCaller
  void chose(uint32_t endpoint) final;
  void on_no_room() final;
  void on_place() final;
  void on_place_lost() final { place_ = 0; }

  uint32_t endpoint() const { return endpoint_; }
  /// How many endpoints were chosen so far.
  uint32_t attempts() const { return attempts_; }

 protected:
  UpstreamRequest() = default;
  ~UpstreamRequest() {
    leave_endpoint();
    let_endpoint_go();
  }
  UpstreamRequest(const UpstreamRequest&) = delete;
  UpstreamRequest& operator=(const UpstreamRequest&) = delete;

  /// Requests a connection to an endpoint that was not tried yet. The result may arrive before this returns.
  void call() { call(/*complete=*/true); }
  /// `complete`: whether all of the request has arrived.
  void call(bool complete);
  bool attempts_left() const;
  /// Waits for a turn of the loop that has room for another request: see ForwardQueue. Returns false if there is no
  /// need to wait.
  [[nodiscard]] bool wait_for_turn(bool alone);
  /// The first step of on_upstream.
  void take_upstream(UpstreamConnection& connection, HttpStream& stream);
  /// Stops waiting for a turn or a connection.
  void stop_waiting();
  /// Releases the stream. A stream that has not ended is reset.
  void leave_upstream();
  void leave_endpoint() {
    uncount_endpoint();
    leave_place();
  }
  /// The request has been passed on completely, or not yet: see ConcurrencyLimit. take_upstream() implies the former.
  void note_sent() {
    if (place_ != 0) [[unlikely]]
      note_passed(true);
  }
  void note_incomplete() {
    if (place_ != 0) [[unlikely]]
      note_passed(false);
  }
  /// The head of the final response has arrived, so the request is not in flight any more. `status`: of HTTP, or what a
  /// status of gRPC amounts to.
  void leave_place(uint16_t status) {
    if (has_place()) [[unlikely]]
      leave_place_with(status);
  }
  /// The head of the final response has arrived.
  void report_response(uint16_t status, uint64_t now_ms);
  /// The endpoint has failed the request, or did not respond in time. `why`: in a few words.
  void report_error(uint64_t now_ms, std::string_view why);
  /// A timeout of the request that may be the endpoint's fault.
  void report_timeout();
  bool has_place() const { return place_ != 0; }
  /// Ends the time for which the request counts as in flight.
  void leave_place() {
    if (place_ != 0) [[unlikely]]
      give_place_back();
  }
  /// Takes the place of another caller of the same upstream: its stream or its place in a queue, its endpoint, and the
  /// endpoints that it has tried. Precondition: this one has left its own.
  void adopt(UpstreamRequest& other);

  HttpUpstream* to_ = nullptr;      // The upstream that the request goes to.
  HttpStream* upstream_ = nullptr;  // Null before there is a connection, and after the release.
  uint32_t attempts_ = 0;           // Attempts to find a connection, in total.
  uint32_t endpoint_ = 0;

 private:
  void count_outcome(bool succeeded);
  void uncount_endpoint();
  void note_passed(bool completely);
  void give_place_back();
  void leave_place_with(uint16_t status);
  /// Lets go of the endpoint. It is held as long as its name may be needed.
  void let_endpoint_go();
};

}  // namespace sluice
