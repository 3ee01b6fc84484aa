// libnghttp2's sessions as the peer, on either side.

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/proxy/http/h2/rig.h"

namespace sluice::test::http2 {
namespace {

std::string pattern(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  std::minstd_rand random(seed + 1);
  for (char& c : bytes) c = static_cast<char>(random() >> 8);
  return bytes;
}

// A session of nghttp2 that keeps everything it receives, and sends the bodies it was given.
class Nghttp2 {
 public:
  struct Stream {
    FieldList fields, trailers;
    std::string body;
    bool has_head = false, end = false, closed = false;
    uint32_t error = 0;
    std::string to_send;
    size_t sent = 0;
    FieldList trailers_to_send;
  };

  explicit Nghttp2(bool server, uint32_t window = 65535) : server_(server) {
    nghttp2_session_callbacks* callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* self) {
          Stream& stream = static_cast<Nghttp2*>(self)->streams[frame->hd.stream_id];
          FieldList& to = stream.has_head ? stream.trailers : stream.fields;
          to.emplace_back(std::string(reinterpret_cast<const char*>(name), name_size),
                          std::string(reinterpret_cast<const char*>(value), value_size));
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          auto& me = *static_cast<Nghttp2*>(self);
          if (frame->hd.type == NGHTTP2_GOAWAY) me.goaways.push_back(frame->goaway.last_stream_id);
          if (frame->hd.stream_id == 0) return 0;
          Stream& stream = me.streams[frame->hd.stream_id];
          if (frame->hd.type == NGHTTP2_HEADERS) stream.has_head = true;
          if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
              (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
            stream.end = true;
            if (me.server_) me.ended.push_back(frame->hd.stream_id);
          }
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* bytes, size_t size, void* self) {
          static_cast<Nghttp2*>(self)->streams[id].body.append(reinterpret_cast<const char*>(bytes), size);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, int32_t id, uint32_t error, void* self) {
          Stream& stream = static_cast<Nghttp2*>(self)->streams[id];
          stream.closed = true;
          stream.error = error;
          return 0;
        });
    if (server) {
      nghttp2_session_server_new(&session, callbacks, this);
    } else {
      nghttp2_session_client_new(&session, callbacks, this);
    }
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
                                              {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1}};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, entries, server ? 2 : 1);
  }
  ~Nghttp2() { nghttp2_session_del(session); }
  Nghttp2(const Nghttp2&) = delete;
  Nghttp2& operator=(const Nghttp2&) = delete;

  static std::vector<nghttp2_nv> name_values(const FieldList& fields) {
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) {
      const auto pointer = [](const std::string& text) {
        return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
      };
      list.push_back({pointer(name), pointer(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    }
    return list;
  }
  // A request, or the response to `id`.
  int32_t submit(const FieldList& fields, std::string body, FieldList trailers = {}, int32_t id = 0) {
    nghttp2_data_provider2 provider;
    provider.source.ptr = this;
    provider.read_callback = [](nghttp2_session* s, int32_t stream_id, uint8_t* to, size_t size, uint32_t* flags,
                                nghttp2_data_source* source, void*) -> nghttp2_ssize {
      Stream& stream = static_cast<Nghttp2*>(source->ptr)->streams[stream_id];
      const size_t piece = std::min(size, stream.to_send.size() - stream.sent);
      std::memcpy(to, stream.to_send.data() + stream.sent, piece);
      stream.sent += piece;
      if (stream.sent == stream.to_send.size()) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!stream.trailers_to_send.empty()) {
          *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
          const auto list = name_values(stream.trailers_to_send);
          nghttp2_submit_trailer(s, stream_id, list.data(), list.size());
        }
      }
      return static_cast<nghttp2_ssize>(piece);
    };
    const auto list = name_values(fields);
    const bool none = body.empty() && trailers.empty();
    if (server_) {
      EXPECT_EQ(nghttp2_submit_response2(session, id, list.data(), list.size(), none ? nullptr : &provider), 0);
    } else {
      id = nghttp2_submit_request2(session, nullptr, list.data(), list.size(), none ? nullptr : &provider, nullptr);
      EXPECT_GT(id, 0);
    }
    streams[id].to_send = std::move(body);
    streams[id].trailers_to_send = std::move(trailers);
    return id;
  }
  void receive(const std::string& bytes) {
    const auto read = nghttp2_session_mem_recv2(session, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    EXPECT_EQ(read, static_cast<nghttp2_ssize>(bytes.size())) << nghttp2_strerror(static_cast<int>(read));
  }
  std::string send() {
    std::string bytes;
    const uint8_t* at;
    for (nghttp2_ssize size; (size = nghttp2_session_mem_send2(session, &at)) > 0;) {
      bytes.append(reinterpret_cast<const char*>(at), static_cast<size_t>(size));
    }
    return bytes;
  }

  nghttp2_session* session = nullptr;
  std::map<int32_t, Stream> streams;
  std::vector<int32_t> ended, goaways;

 private:
  bool server_;
};

class Http2WithNghttp2 : public PoolTest {
 protected:
  Http2WithNghttp2() : PoolTest(size_t{64} << 20), shared_{pool_, limits_, counters_} {}

  // Exchanges bytes until neither side has anything to send.
  void exchange(Http2Codec& ours, Nghttp2& theirs) {
    for (int idle = 0; idle < 2;) {
      Buffer out;
      while (ours.has_output()) ours.flush(out);
      const std::string to_them = sluice::test::text_of(out), to_us = theirs.send();
      theirs.receive(to_them);
      ASSERT_NE(ours.receive(sluice::test::buffer_of(pool_, to_us, splits_every(1 + random_() % 9000, to_us.size()))),
                HttpCodec::Status::kFailed)
          << ours.error();
      idle = to_them.empty() && to_us.empty() && !ours.input_waits() ? idle + 1 : 0;
    }
  }
  std::string field(const FieldList& fields, std::string_view name) {
    for (const auto& [n, value] : fields) {
      if (n == name) return value;
    }
    return "(none)";
  }

  Http2Limits limits_;
  Http2Counters counters_;
  Http2Codec::Shared shared_;
  std::minstd_rand random_{5};
};

TEST_F(Http2WithNghttp2, Nghttp2Client) {
  Requests requests;
  Http2Codec server(shared_, &requests);
  Nghttp2 client(false, 20'000);
  const size_t count = 60;
  for (uint32_t i = 0; i < count; ++i) {
    FieldList fields = {{":method", "POST"},
                        {":scheme", "https"},
                        {":authority", "a.example"},
                        {":path", "/" + std::to_string(i)},
                        {"x-large", std::string(i * 300, 'v')},
                        {"cookie", "a=" + std::to_string(i)},
                        {"cookie", "b=2"}};
    client.submit(fields, pattern(i * 5000, i), i % 3 == 0 ? FieldList{{"x-trailer", "t"}} : FieldList{});
  }
  exchange(server, client);
  ASSERT_EQ(requests.size(), count);
  for (uint32_t i = 0; i < count; ++i) {
    Exchange& request = requests[i];
    EXPECT_TRUE(request.ended);
    EXPECT_EQ(request.head.path(), "/" + std::to_string(i));
    EXPECT_EQ(request.head.fields.value("x-large").size(), i * 300);
    EXPECT_EQ(request.head.fields.value("cookie"), "a=" + std::to_string(i) + "; b=2");
    EXPECT_EQ(request.body.to_string(), pattern(i * 5000, i));
    EXPECT_EQ(request.has_trailers, i % 3 == 0);
    request.stream->send_head(response(pool_, 103), false);
    request.stream->send_head(response(pool_, 200, {{"x-number", std::to_string(i)}, {"set-cookie", "s"}}), false);
    const std::string body = pattern(i * 7001, i + 1000);
    request.stream->send_body(sluice::test::buffer_of(pool_, body, splits_every(5000, body.size())), i % 2 == 0);
    if (i % 2 == 0) continue;
    Fields trailers;
    ASSERT_TRUE(trailers.add(pool_, "x-sum", std::to_string(i)));
    request.stream->send_trailers(trailers);
  }
  server.park();
  exchange(server, client);
  for (uint32_t i = 0; i < count; ++i) {
    const Nghttp2::Stream& stream = client.streams[static_cast<int32_t>(2 * i + 1)];
    EXPECT_TRUE(stream.closed);
    EXPECT_EQ(stream.error, 0u);
    EXPECT_EQ(stream.body, pattern(i * 7001, i + 1000));
    const FieldList all = [&] {
      FieldList list = stream.fields;
      list.insert(list.end(), stream.trailers.begin(), stream.trailers.end());
      return list;
    }();
    EXPECT_EQ(field(all, "x-number"), std::to_string(i));
    EXPECT_EQ(field(all, "x-sum"), i % 2 == 0 ? "(none)" : std::to_string(i));
  }
  EXPECT_EQ(counters_.completed, count);
  // One more, so that there is something to wait for.
  const int32_t last = client.submit(get_fields(), "");
  exchange(server, client);
  server.drain();
  exchange(server, client);
  EXPECT_EQ(client.goaways, (std::vector<int32_t>{0x7fffffff, last}));
  EXPECT_EQ(server.status(), HttpCodec::Status::kOpen);
  requests[count].stream->send_head(response(pool_, 204), true);
  EXPECT_EQ(server.status(), HttpCodec::Status::kEnded);
  exchange(server, client);
  EXPECT_TRUE(client.streams[last].closed);
  EXPECT_EQ(client.streams[last].error, 0u);
  requests.exchanges.clear();
}

TEST_F(Http2WithNghttp2, Nghttp2Server) {
  Http2Codec client(shared_);
  Nghttp2 server(true, 3'000);
  exchange(client, server);
  EXPECT_TRUE(client.accepts_protocols());
  const size_t count = 60;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (uint32_t i = 0; i < count; ++i) {
    exchanges.push_back(std::make_unique<Exchange>());
    HttpStream* stream = exchanges.back()->stream = client.open_stream(*exchanges.back());
    ASSERT_NE(stream, nullptr);
    stream->send_head(request(pool_, "POST", {{"x-number", std::to_string(i)}, {"x-large", std::string(i * 400, 'v')}}),
                      false);
    const std::string body = pattern(i * 3001, i);
    stream->send_body(sluice::test::buffer_of(pool_, body, splits_every(4096, body.size())), i % 2 == 0);
    if (i % 2 == 0) continue;
    Fields trailers;
    ASSERT_TRUE(trailers.add(pool_, "x-sum", "1"));
    stream->send_trailers(trailers);
    exchange(client, server);  // Too many large heads that wait would block further streams.
  }
  exchange(client, server);
  ASSERT_EQ(server.ended.size(), count);
  for (const int32_t id : server.ended) {
    const auto i = static_cast<uint32_t>(id / 2);
    const Nghttp2::Stream& stream = server.streams[id];
    EXPECT_EQ(stream.body, pattern(i * 3001, i));
    EXPECT_EQ(field(stream.fields, ":method"), "POST");
    EXPECT_EQ(field(stream.fields, "x-number"), std::to_string(i));
    EXPECT_EQ(field(stream.fields, "x-large").size(), i * 400);
    EXPECT_EQ(field(stream.trailers, "x-sum"), i % 2 == 0 ? "(none)" : "1");
    server.submit({{":status", "200"}, {"x-number", std::to_string(i)}}, pattern(i * 9001, i + 7),
                  i % 3 == 0 ? FieldList{{"x-end", "e"}} : FieldList{}, id);
  }
  exchange(client, server);
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT_TRUE(exchanges[i]->ended);
    EXPECT_EQ(exchanges[i]->head.fields.value("x-number"), std::to_string(i));
    EXPECT_EQ(exchanges[i]->body.to_string(), pattern(i * 9001, i + 7));
    EXPECT_EQ(exchanges[i]->trailers.value("x-end"), i % 3 == 0 ? "e" : "");
  }
  exchanges.clear();
  nghttp2_session_terminate_session(server.session, NGHTTP2_NO_ERROR);
  exchange(client, server);
  EXPECT_EQ(client.status(), HttpCodec::Status::kEnded);
}

TEST_F(Http2WithNghttp2, ManyBlocksThroughParkedTables) {
  Requests requests;
  Http2Codec server(shared_, &requests);
  Nghttp2 client(false);
  for (int i = 0; i < 300; ++i) {
    FieldList fields = get_fields({{"x-" + std::to_string(random_() % 50), std::string(random_() % 100, 'a')}});
    const int32_t id = client.submit(fields, "");
    exchange(server, client);
    ASSERT_EQ(requests.size(), 1u);
    EXPECT_EQ(requests[0].head.fields[0].name, fields.back().first);
    EXPECT_EQ(requests[0].head.fields[0].value, fields.back().second);
    const std::string value = std::to_string(random_() % 9);
    requests[0].stream->send_head(response(pool_, 200, {{"x-a", value}, {"x-b", value}}), true);
    if (random_() % 3 == 0) server.park();
    exchange(server, client);
    EXPECT_EQ(field(client.streams[id].fields, "x-b"), value);
    requests.exchanges.clear();
    if (random_() % 3 == 0) server.park();
  }
  EXPECT_EQ(counters_.resets_sent, 0u);
}

}  // namespace
}  // namespace sluice::test::http2
