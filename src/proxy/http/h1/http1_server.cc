#include "proxy/http/h1/http1_server.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "proxy/common/token.h"
#include "proxy/http/h1/writer.h"
#include "proxy/http/message/http_date.h"
#include "proxy/http/message/reason_phrase.h"
#include "sluice/cursor.h"

namespace sluice {

using http1::Error;
using http1::Framing;
using http1::MessageInfo;
using http1::RequestKind;
using http1::Writer;

// ---- Requests ----

// Skips an empty line before a request. Returns false if it needs more input to decide.
bool Http1Server::skip_empty_line() {
  if (line_skipped_ || !options_.allow_empty_line || scan_.bytes() > 0) return true;
  Cursor cursor(input_);
  if (cursor.u8() != '\r') return true;
  if (input_.size() == 1) return false;
  if (cursor.u8() == '\n') {
    input_.trim_front(2);
    line_skipped_ = true;
    ++counters_.empty_lines;
  }
  return true;
}

bool Http1Server::read_head() {
  const bool resumed = input_waits_;
  input_waits_ = false;
  if (output_full()) return false;
  if (input_.empty() || !skip_empty_line() || input_.empty()) {
    if (peer_ended()) end_connection();
    return false;
  }
  if (!head_allowed_) {
    input_waits_ = !acceptor_.may_read_pipelined() && !resumed;  // A resumed one takes from the turn's budget too.
    if (input_waits_) return false;
    head_allowed_ = true;
  }
  const Http1Limits& limits = options_.limits;
  if (scan_head({limits.start_line_bytes, limits.head_bytes, limits.fields}) != Scan::kComplete) {
    return false;
  }
  Head head;
  MessageInfo info;
  if (const Error error = take_head([&](std::string_view bytes, size_t fields) {
        return http1::read_request(bytes, fields, options_, counters_, pool_, head, info);
      })) {
    return fail(error);
  }
  head_allowed_ = false;
  const size_t head_bytes = head.fields.held_bytes() + kStreamBytes;
  if (!acceptor_.admits(held_bytes(), head_bytes)) {
    ++counters_.over_memory;
    return fail({503, ResetReason::kOverload, kOverMemory});
  }
  head_kib_ = static_cast<uint8_t>((head_bytes + 1023) / 1024);
  ++counters_.messages;
  if (++requests_ == limits.requests) ++counters_.requests_met;
  kind_ = info.kind;
  expects_ = info.expects;
  version_1_0_ = info.version_1_0;
  body_.begin(info.framing, info.length);
  if (asks_for_tunnel(kind_)) await_tunnel(info.accept);

  StreamReceiver& receiver = acceptor_.on_stream(*this);  // It may call end_after_request().
  const bool last = !info.persistent || draining_ || requests_ >= limits.requests;
  begin_exchange(receiver, last ? Persistence::kEnds : Persistence::kPersists);
  const bool end = info.framing == Framing::kNone && !pending_tunnel_;
  begin_input(end ? In::kDone : pending_tunnel_ ? In::kHeld : In::kBody);
  receiver_->on_head(*this, std::move(head), end);
  settle_exchange();
  return true;
}

void Http1Server::drain() {
  draining_ = true;
  if (status_ == Status::kOpen && idle()) end_connection();
}

// ---- Responses ----

namespace {

// The most that is reported of a first line.
constexpr size_t kReportedLineBytes = 1024;

void write_status_line(Writer& writer, uint16_t status) {
  writer.text("HTTP/1.1 ");
  writer.number(status);
  writer.text(" ");
  writer.text(reason_phrase(status));
  writer.text("\r\n");
}

}  // namespace

void Http1Server::send_head(const Head& head, bool end) {
  if (status_ != Status::kOpen || out_ != Out::kHead) return;
  if (head.status < 100 || head.status > 599 || !http1::are_safe(head.fields)) {
    return fail_sending("a response that cannot be written");
  }
  const bool agrees = !head.own && ((head.status / 100 == 2 && !head.ignores_upgrade) ||
                                    (kind_ == RequestKind::kWebsocket && head.status == 101));
  if (pending_tunnel_ && agrees) {
    accept_tunnel(head);
    if (end) end_output();
  } else if (head.status < 200) {
    write_interim(head);
  } else {
    write_final(head, end);
  }
}

void Http1Server::write_interim(const Head& head) {
  if (version_1_0_) return;  // HTTP/1.0 has no 1xx responses.
  if (head.status == 101) return fail_sending("an upgrade that was not requested");
  if (head.status == 100) expects_ = false;
  write_unframed(head);
}

void Http1Server::write_unframed(const Head& head) {
  Writer writer(output_, pool_, http1::written_bytes(head.fields) + 64);
  write_status_line(writer, head.status);
  writer.fields(head.fields);
  writer.text("\r\n");
}

void Http1Server::accept_tunnel(const Head& head) {
  if (kind_ == RequestKind::kWebsocket) {
    const http1::WebsocketAccept& accept = pending_tunnel_->accept;
    {
      Writer writer(output_, pool_, http1::written_bytes(head.fields) + 160);
      writer.text("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n");
      writer.field("sec-websocket-accept", {accept.data(), accept.size()});
      writer.fields(head.fields);
      writer.text("\r\n");
    }
  } else {
    write_unframed(head);
  }
  begin_output_body();
  begin_tunnel();
}

void Http1Server::write_final(const Head& head, bool end) {
  if (pending_tunnel_) {  // The tunnel is refused. The bytes after the request are of unknown kind.
    pending_tunnel_.reset();
    end_input();
    end_after_exchange();
  }
  // If the rest of the request is known to be too large to drop, the response announces that it is the last one (RFC
  // 9112 section 9.6).
  if (in_ != In::kDone && (expects_ || (head.status >= 400 && !rest_is_small() && !rest_is_here()))) {
    end_after_exchange();
  }
  if ((head.own || end) && in_ == In::kBody && body_.framing() == Framing::kLength && !rest_is_small()) {
    end_after_exchange();
  }
  if (draining_) end_after_exchange();

  const std::string_view length = head.fields.value("content-length");
  const bool has_length = !length.empty();
  if (has_length && !http1::read_length(length, out_left_))
    return fail_sending("a Content-Length that is not a number");
  const uint64_t length_bytes = out_left_;
  std::string_view framing;
  out_framing_ = Framing::kNone;
  if (kind_ == RequestKind::kHead || head.status == 304) {
    if (has_length) framing = "content-length: ";
  } else if (has_length && head.status != 204) {
    if (end && out_left_ > 0) return fail_sending("less body than its Content-Length");
    framing = "content-length: ";
    out_framing_ = Framing::kLength;
  } else if (head.status == 204) {
    framing = {};
  } else if (end) {
    framing = "content-length: 0\r\n";
  } else if (!version_1_0_) {
    framing = "transfer-encoding: chunked\r\n";
    out_framing_ = Framing::kChunked;
  } else {
    out_framing_ = Framing::kUntilEnd;
    end_after_exchange();
  }

  {
    Writer writer(output_, pool_, http1::written_bytes(head.fields) + 128);
    write_status_line(writer, head.status);
    // Upgrade applies to one connection only, but a 426 is meaningless without it (RFC 9110 section 15.5.22).
    writer.fields(head.fields, head.status == 426 ? Writer::Of::kUpgradeRequired : Writer::Of::kOther);
    writer.text(framing);
    if (framing.ends_with(' ')) {
      writer.number(length_bytes);
      writer.text("\r\n");
    }
    if (head.status == 426 && head.fields.find("upgrade") != Fields::npos) writer.text("connection: upgrade\r\n");
    if (!persists()) {
      writer.text("connection: close\r\n");
    } else if (version_1_0_) {
      writer.text("connection: keep-alive\r\n");
    }
    writer.text("\r\n");
  }
  begin_output_body();
  if (end) end_output();
}

void Http1Server::report(const Error& error) {
  BrokenMessage message{.rule = error.what, .status = error.status};
  if (in_exchange()) {
    if (out_ != Out::kHead) message.status = 0;  // respond() cannot respond.
    if (receiver_ && !ended()) receiver_->on_broken(*this, message);
    return;
  }
  message.first = requests_ == 0;
  std::array<std::byte, kReportedLineBytes> bytes;
  // Where there is no memory, the head was read already, and other bytes are next.
  const size_t size = error.reason == ResetReason::kOverload ? 0 : std::min(input_.size(), bytes.size());
  if (size > 0) input_.copy_out(0, std::span(bytes).first(size));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
  message.line = text.substr(0, text.find_first_of("\r\n"));
  acceptor_.on_refused(message);
}

void Http1Server::respond(const Error& error) {
  // No response to a peer that is gone, nor after the beginning of another response.
  if (error.status == 0 || (in_exchange() && out_ != Out::kHead)) return;
  const std::string_view what = error.what;
  Writer writer(output_, pool_, 200 + what.size());
  write_status_line(writer, error.status);
  writer.text("connection: close\r\ncontent-type: text/plain\r\n");
  writer.field("date", http_date());
  writer.text("content-length: ");
  writer.number(what.size() + 1);
  writer.text("\r\n\r\n");
  writer.text(what);
  writer.text("\n");
}

}  // namespace sluice
