// A connection that leaves its socket and continues in another one: no byte is lost or sent twice, in either direction.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "test/net/loop.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

using test::Loop;
using test::Pair;
using test::Peer;
using test::Recorder;

// A recorder that notes when its socket is detached.
struct DetachRecorder final : Socket::Owner {
  void on_connected(Socket& socket, int error) override { recorder.on_connected(socket, error); }
  void on_data(Socket& socket, Buffer&& data) override { recorder.on_data(socket, std::move(data)); }
  void on_end(Socket& socket) override { recorder.on_end(socket); }
  void on_sent(Socket& socket) override { recorder.on_sent(socket); }
  void on_error(Socket& socket, int error) override { recorder.on_error(socket, error); }
  void on_closed(Socket& socket) override { recorder.on_closed(socket); }
  void on_detached(Socket& socket) override {
    EXPECT_FALSE(recorder.inside);
    EXPECT_TRUE(socket.detached());
    detached = true;
  }
  Recorder recorder;
  bool detached = false;
};

class DetachTest : public ::testing::TestWithParam<bool> {
 protected:
  DetachTest() {
    const Pair pair = GetParam() ? test::tcp_pair() : test::unix_pair();
    peer_ = Peer(pair.theirs);
    socket_->adopt(pair.ours);
  }
  ~DetachTest() override {
    socket_->close();
    loop_.until([&] { return !socket_->busy(); });
    loop_.settle();
  }
  // Continues in another socket, as in another process. The queued output goes along.
  void move() {
    DetachRecorder& before = *owner_;
    socket_->detach();
    EXPECT_FALSE(before.detached);
    loop_.until([&] { return before.detached; });
    Buffer output;
    for (const auto window : socket_->output().windows()) {
      EXPECT_TRUE(output.append_copy(loop_.worker().pool(), window));
    }
    const bool ended = socket_->write_ended(), reads = socket_->reading();
    const int fd = socket_->take();
    loop_.until([&] { return before.recorder.closed == 1; });
    received_ += before.recorder.received;
    auto owner = std::make_unique<DetachRecorder>();
    auto socket = std::make_unique<Socket>(loop_.worker(), *owner);
    socket->adopt(fd);
    socket->send(std::move(output));
    if (ended) socket->shutdown_write();
    if (reads) socket->start_reading();
    socket_ = std::move(socket);
    owner_ = std::move(owner);
  }
  void send(std::string_view text) { socket_->send(test::buffer_of(loop_.worker().pool(), text)); }
  std::string received() const { return received_ + owner_->recorder.received; }

  Loop loop_;
  Peer peer_;
  std::unique_ptr<DetachRecorder> owner_ = std::make_unique<DetachRecorder>();
  std::unique_ptr<Socket> socket_ = std::make_unique<Socket>(loop_.worker(), *owner_);
  std::string received_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, DetachTest, ::testing::Bool(),
                         [](const auto& each) { return std::string(each.param ? "Tcp" : "Unix"); });

TEST_P(DetachTest, IdleConnection) {
  socket_->start_reading();
  loop_.settle();
  for (int i = 0; i < 3; ++i) {
    move();
    peer_.send("ping");
    loop_.until([&] { return received().size() == 4u * (static_cast<size_t>(i) + 1); });
    send("pong");
    loop_.until([&] {
      peer_.read();
      return peer_.received.size() == 4u * (static_cast<size_t>(i) + 1);
    });
  }
}

// Data that arrives while the receive is being canceled belongs to the old socket or to the new one.
TEST_P(DetachTest, DataThatArrivesMeanwhile) {
  socket_->start_reading();
  loop_.settle();
  std::string sent;
  for (int i = 0; i < 100; ++i) {
    const std::string piece = std::to_string(i) + ",";
    peer_.send(piece);
    sent += piece;
    move();
  }
  loop_.until([&] { return received().size() == sent.size(); });
  EXPECT_EQ(received(), sent);
}

// A send that is partly done when it is canceled continues with the rest.
TEST_P(DetachTest, SendThatIsPartlyDone) {
  std::string sent;
  for (int i = 0; i < 3'000'000; ++i) sent += std::to_string(i) + ",";
  send(sent);
  loop_.settle();
  EXPECT_GT(socket_->queued(), 0u);  // The peer reads nothing.
  socket_->shutdown_write();
  for (int i = 0; i < 20; ++i) {
    move();
    peer_.read(100'000);
    loop_.settle(2);
  }
  loop_.until([&] {
    peer_.read();
    return peer_.ended;
  });
  EXPECT_EQ(peer_.received, sent);
}

TEST_P(DetachTest, ReattachContinues) {
  socket_->start_reading();
  send("before");
  loop_.settle();
  socket_->detach();
  loop_.until([&] { return owner_->detached; });
  peer_.send("hello");
  send("after");
  loop_.settle();
  EXPECT_EQ(received(), "");
  socket_->reattach();
  loop_.until([&] { return received() == "hello"; });
  loop_.until([&] {
    peer_.read();
    return peer_.received == "beforeafter";
  });
}

TEST_P(DetachTest, CloseWhileDetaching) {
  socket_->start_reading();
  loop_.settle();
  socket_->detach();
  socket_->close();
  loop_.until([&] { return owner_->recorder.closed == 1; });
  loop_.until([&] {
    peer_.read();
    return peer_.ended;
  });
}

}  // namespace
}  // namespace sluice
