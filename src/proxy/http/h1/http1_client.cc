#include "proxy/http/h1/http1_client.h"

#include <array>
#include <utility>

#include "proxy/common/token.h"
#include "proxy/http/h1/websocket.h"
#include "proxy/http/h1/writer.h"

namespace sluice {

using http1::Error;
using http1::Framing;
using http1::MessageInfo;
using http1::RequestKind;
using http1::Writer;

HttpStream* Http1Client::open_stream(StreamReceiver& receiver) {
  if (status_ != Status::kOpen || in_exchange() || draining_ || peer_ended() || !input_.empty()) return nullptr;
  begin_exchange(receiver, Persistence::kPersists);
  kind_ = RequestKind::kOther;
  ++requests_;
  return this;
}

void Http1Client::drain() {
  draining_ = true;
  if (status_ == Status::kOpen && !in_exchange()) end_connection();
}

// ---- Requests ----

void Http1Client::send_head(const Head& head, bool end) {
  if (status_ != Status::kOpen || out_ != Out::kHead) return;
  const bool websocket = !head.protocol().empty();
  const std::string_view method = websocket ? "GET" : head.method();
  kind_ = websocket ? RequestKind::kWebsocket : http1::kind_of(method);
  const std::string_view target = kind_ == RequestKind::kConnect ? head.authority() : head.path();
  if (websocket && head.protocol() != "websocket") return refuse_head();  // HTTP/1.1 has no other protocol.
  if (!http1::is_token(method) || target.empty() || !http1::is_visible(target) ||
      !http1::is_visible(head.authority()) || !http1::are_safe(head.fields)) {
    return refuse_head();
  }
  if (asks_for_tunnel(kind_)) {
    if (end) return refuse_head();  // The tunnel would end before it is accepted.
    await_tunnel({});
  }
  if (draining_) end_after_exchange();
  write_head(head, method, target, end);
}

void Http1Client::refuse_head() {
  ++counters_.malformed;
  reset_owed_ = true;
  owed_reason_ = ResetReason::kUnsendable;
  abandon();
}

void Http1Client::write_head(const Head& head, std::string_view method, std::string_view target, bool end) {
  const std::string_view length = head.fields.value("content-length");
  bool has_length = !length.empty();
  if (has_length && !http1::read_length(length, out_left_)) return refuse_head();
  if (pending_tunnel_) {
    has_length = false;
    out_framing_ = Framing::kUntilEnd;
  } else if (has_length) {
    if (end && out_left_ > 0) return refuse_head();
    out_framing_ = Framing::kLength;
  } else {
    out_framing_ = end ? Framing::kNone : Framing::kChunked;
  }
  const uint64_t content_bytes = out_left_;
  const bool trailers = head.fields.value("te") == "trailers";
  {
    Writer writer(output_, pool_, http1::written_bytes(head.fields) + target.size() + head.authority().size() + 256);
    writer.text(method);
    writer.text(" ");
    writer.text(target);
    writer.text(" HTTP/1.1\r\n");
    writer.field("host", head.authority());
    writer.fields(head.fields, Writer::Of::kRequest);
    if (has_length) {
      writer.text("content-length: ");  // Rewritten as a number, because the original may have leading zeros.
      writer.number(content_bytes);
      writer.text("\r\n");
    } else if (out_framing_ == Framing::kChunked) {
      writer.text("transfer-encoding: chunked\r\n");
    } else if (!pending_tunnel_ && (method == "POST" || method == "PUT" || method == "PATCH")) {
      writer.text("content-length: 0\r\n");
    }
    if (trailers) writer.text("te: trailers\r\nconnection: te\r\n");
    if (kind_ == RequestKind::kWebsocket) {
      const http1::WebsocketKey key = http1::new_websocket_key();
      pending_tunnel_->accept = http1::websocket_accept({key.data(), key.size()});
      writer.text("connection: upgrade\r\nupgrade: websocket\r\n");
      writer.field("sec-websocket-key", {key.data(), key.size()});
      if (head.fields.find("sec-websocket-version") == Fields::npos) writer.text("sec-websocket-version: 13\r\n");
    } else if (!persists()) {
      writer.text("connection: close\r\n");
    }
    writer.text("\r\n");
  }
  begin_output_body();
  head_unsent_ = true;
  if (end) end_output();
}

// ---- Responses ----

bool Http1Client::read_head() {
  if (!in_exchange() || out_ == Out::kHead || head_unsent_) {
    if (!input_.empty()) {
      constexpr const char* kRule = "bytes that belong to no response";
      // A response that ends an idle connection, such as 408, may cross with the next request. The endpoint has not
      // seen that request, so it may be retried.
      return in_exchange() && requests_ > 1 ? lose(kRule) : fail(http1::malformed(kRule));
    }
    if (!peer_ended()) return false;
    if (in_exchange()) return lose("the connection ended before the request");
    end_connection();
    return false;
  }
  if (input_.empty()) return peer_ended() && lose("the connection ended before the response");
  const Http1Limits& limits = options_.limits;
  if (scan_head({limits.start_line_bytes, limits.head_bytes, limits.fields}) != Scan::kComplete) {
    return false;
  }
  Head head;
  MessageInfo info;
  return take_response(head, info);
}

bool Http1Client::take_response(Head& head, MessageInfo& info) {
  MessageInfo request;
  request.kind = kind_;
  if (pending_tunnel_) request.accept = pending_tunnel_->accept;
  if (const Error error = take_head([&](std::string_view bytes, size_t fields) {
        return http1::read_response(bytes, fields, options_, counters_, pool_, request, head, info);
      })) {
    return fail(error);
  }
  if (head.status < 200 && !info.tunnel) {
    ++counters_.informational;
    if (++informational_ > options_.limits.informational) {
      return fail(http1::too_large(0, "too many responses before the final one"));
    }
    receiver_->on_head(*this, std::move(head), false);
    return true;
  }
  ++counters_.messages;
  bool end = false;
  if (info.tunnel) {
    begin_tunnel();
  } else {
    if (pending_tunnel_) {  // The peer refused the tunnel: we send nothing more.
      pending_tunnel_.reset();
      end_output();
    }
    if (!info.persistent) end_after_exchange();
    end = info.framing == Framing::kNone;
    begin_input(end ? In::kDone : In::kBody);
    body_.begin(info.framing, info.length);
  }
  receiver_->on_head(*this, std::move(head), end);
  settle_exchange();
  return true;
}

// Runs when the response is complete, while the request may be incomplete or the stream unreleased.
bool Http1Client::after_message() {
  if (!in_exchange()) return false;
  if (!input_.empty() && !in_tunnel()) {
    if (!out_over()) return fail(http1::malformed("bytes after a response"));
    fail_connection("bytes after a response");
    ++counters_.malformed;
    return false;
  }
  if (peer_ended()) end_after_exchange();
  if (persists() || in_tunnel() || out_over()) return false;
  // The peer reads no more of the request.
  output_.clear();
  end_output();
  return false;
}

}  // namespace sluice
