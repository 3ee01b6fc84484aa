// Connections of HTTP/1.1 without a socket. Everything that their receivers get becomes text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h1/http1_client.h"
#include "proxy/http/h1/http1_server.h"
#include "test/support/buffers.h"

namespace sluice::test {

/// Tables are written with \n for CR LF, \v for a bare LF and \f for a bare CR.
inline std::string wire(std::string_view text) {
  std::string bytes;
  for (const char c : text) {
    if (c == '\n') {
      bytes += "\r\n";
    } else {
      bytes += c == '\v' ? '\n' : c == '\f' ? '\r' : c;
    }
  }
  return bytes;
}

/// Without the CRs.
inline std::string shown(std::string_view bytes) {
  std::string text(bytes);
  std::erase(text, '\r');
  return text;
}

inline std::string shown(const Fields& fields) {
  std::string text;
  for (const Fields::Field field : fields) {
    text += (text.empty() ? "" : "; ") + std::string(field.name) + ": " + std::string(field.value);
  }
  return text.empty() ? text : " {" + text + "}";
}

/// `GET http a / {accept: *}`, or `200 {...}`.
inline std::string shown(const Head& head) {
  std::string text;
  if (head.status != 0) {
    text = std::to_string(head.status);
  } else {
    for (const std::string_view part : {head.method(), head.scheme(), head.authority(), head.path()}) {
      text += (text.empty() ? "" : " ") + std::string(part.empty() ? "-" : part);
    }
    if (!head.protocol().empty()) text += " >" + std::string(head.protocol());
  }
  return text + shown(head.fields);
}

inline std::string_view name_of(ResetReason reason) {
  switch (reason) {
    case ResetReason::kMalformed:
      return "malformed";
    case ResetReason::kTooLarge:
      return "too large";
    case ResetReason::kConnectionLost:
      return "lost";
    case ResetReason::kUnsendable:
      return "unsendable";
    default:
      return "another reason";
  }
}

/// Records everything that it receives: heads, bodies as `'text'`, trailers in braces, `.` at the end; however the body
/// was cut.
class Http1Recorder : public StreamReceiver {
 public:
  virtual ~Http1Recorder() = default;
  void on_head(HttpStream&, Head&& head, bool end) override {
    close_body();
    text += (text.empty() || text.ends_with('\n') ? "" : " ") + shown(head) + (end ? "." : "");
    ended = end;
    if (head.status < 200 && head.status != 0) text += ",";
    last = std::move(head);
    ++heads;
  }
  void on_body(HttpStream&, Buffer&& body, bool end) override {
    EXPECT_FALSE(ended) << "body behind the end";
    if (!body.empty()) {
      if (!in_body_) text += " '";
      in_body_ = true;
      text += text_of(body);
    } else {
      EXPECT_TRUE(end) << "an empty body that means nothing";
    }
    body_bytes += body.size();
    if (end) finish(".");
  }
  void on_trailers(HttpStream&, Fields&& trailers) override {
    EXPECT_FALSE(ended);
    close_body();
    finish(shown(trailers) + ".");
  }
  void on_reset(HttpStream&, ResetReason reason) override {
    EXPECT_FALSE(was_reset);
    was_reset = true;
    close_body();
    text += " reset: " + std::string(name_of(reason));
  }
  void on_drained(HttpStream&) override { ++drained; }

  std::string text;
  Head last;
  size_t body_bytes = 0;
  int heads = 0, drained = 0;
  bool ended = false, was_reset = false;

 private:
  void close_body() {
    if (in_body_) text += "'";
    in_body_ = false;
  }
  void finish(const std::string& with) {
    close_body();
    text += with;
    ended = true;
  }
  bool in_body_ = false;
};

/// Accepts each request of a connection, and responds once it is complete, if it has a response.
class Http1Origin : public Http1Recorder, public HttpCodec::Acceptor {
 public:
  StreamReceiver& on_stream(HttpStream& to) override {
    if (!text.empty()) text += "\n";
    ended = was_reset = false;
    stream = &to;
    return *this;
  }
  void on_head(HttpStream& to, Head&& head, bool end) override {
    Http1Recorder::on_head(to, std::move(head), end);
    tunnel_ = !last.protocol().empty() || last.method() == "CONNECT";
    if (tunnel_ && responds) {
      Head response;
      response.status = 200;
      to.send_head(response, false);
    }
    respond(to);
  }
  void on_body(HttpStream& to, Buffer&& body, bool end) override {
    Http1Recorder::on_body(to, std::move(body), end);
    respond(to);
  }
  void on_trailers(HttpStream& to, Fields&& trailers) override {
    Http1Recorder::on_trailers(to, std::move(trailers));
    respond(to);
  }

  bool admits(size_t held_bytes, size_t bytes) override { return held_bytes + bytes <= most_held_bytes; }
  bool may_read_pipelined() override { return pipelined_left > 0 && pipelined_left-- > 0; }

  bool responds = true;
  size_t most_held_bytes = SIZE_MAX;
  int pipelined_left = 1'000'000;
  HttpStream* stream = nullptr;

 private:
  void respond(HttpStream& to) {
    if (!responds || !ended) return;
    if (tunnel_) {
      to.send_body(Buffer(), true);
    } else {
      Head response;
      response.status = 200;
      to.send_head(response, true);
    }
    to.release();
    stream = nullptr;
  }
  bool tunnel_ = false;
};

/// All bytes that a connection has to send.
inline std::string flushed(HttpCodec& connection) {
  Buffer out;
  connection.flush(out);
  return text_of(out);
}

/// Passes `bytes` piece by piece, cut at each of `cuts` (ascending). Returns what the connection sent.
inline std::string feed(HttpCodec& connection, std::string_view bytes, const std::vector<size_t>& cuts = {}) {
  std::string sent;
  size_t begin = 0;
  const auto give = [&](size_t end) {
    if (end <= begin) return;
    connection.receive(heap_buffer_of(bytes.substr(begin, end - begin)));
    begin = end;
    sent += flushed(connection);
  };
  for (const size_t cut : cuts) give(std::min(cut, bytes.size()));
  give(bytes.size());
  return sent;
}

class Http1Test : public testing::Test {
 protected:
  Http1Test() : pool_({.budget_bytes = size_t{64} << 20}), use_(&pool_) {}
  ~Http1Test() override {  // After the connections and receivers of derived classes.
    pool_.take_remote_frees();
    EXPECT_EQ(pool_.leaked(), 0u) << "chunks did not come home";
  }

  Buffer body_of(std::string_view text) { return buffer_of(pool_, text); }
  Head request_head(std::string_view method, std::string_view path, std::string_view authority = "a") {
    Head head;
    EXPECT_TRUE(head.set(pool_, Head::Part::kMethod, method) && head.set(pool_, Head::Part::kScheme, "http") &&
                head.set(pool_, Head::Part::kAuthority, authority) && head.set(pool_, Head::Part::kPath, path));
    return head;
  }
  Head response_head(uint16_t status) {
    Head head;
    head.status = status;
    return head;
  }
  Head with(Head head, std::string_view name, std::string_view value) {
    EXPECT_TRUE(head.fields.add(pool_, name, value));
    return head;
  }

  ChunkPool pool_;
  ChunkPool::Use use_;
  Http1Options options_;
  Http1Options client_options_{.limits = Http1Limits::of_responses()};
  Http1Counters counters_;
};

}  // namespace sluice::test
