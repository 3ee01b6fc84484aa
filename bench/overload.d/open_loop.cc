// A client with an open loop: requests fall due at a fixed rate, whatever becomes of the earlier ones.
//
//   open_loop PORT RATE CONNECTIONS spare|each WARM_UP_S SECONDS GIVE_UP_MS LATE_MS PATH...
//
// The paths take turns. In the place of a path @FILE has whole heads of requests, which take turns as well and are
// counted together. `spare`: a request goes out on the connection that was used last, and on a new one only when none
// is free, so that few are busy. `each`: all connections are opened at the start, and again when they end, and a
// request goes out on the one that has been free for longest, as if each were that of another client. A request that
// has not been sent GIVE_UP_MS after it was due is given up, like that of a client with a timeout. Times count from
// when a request was due. What is due in the first WARM_UP_S seconds is not counted. Prints JSON: for each path `due`,
// `given_up`, `late` (with 200 after more than LATE_MS), `broken`, `statuses`, and `times_us`, those of the responses
// with 200.
//
// bench/overload, bench/compare, bench/growth and bench/pushes compile it. It uses nothing but the system, so that it
// takes as little of the clients' processor as it can.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

// More connects at a time would overflow the backlog of a server that is busy.
constexpr size_t kMaxConnecting = 256;
constexpr size_t kNone = SIZE_MAX;

uint64_t now_us() {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count());
}

// Of one argument.
struct Requests {
  std::vector<std::string> heads;
  size_t next = 0;
};

struct Due {
  uint64_t at_us;
  size_t path;
};

struct Result {
  uint64_t due = 0, given_up = 0, late = 0, broken = 0;
  std::map<int, uint64_t> statuses;
  std::vector<uint32_t> times_us;
};

struct Connection {
  int fd = -1;
  bool connecting = false;
  size_t path = kNone;  // Of the request that it has.
  uint64_t due_us = 0;
  std::string received;
};

class Client {
 public:
  Client(char** arguments, int paths)
      : port_(static_cast<uint16_t>(std::atoi(arguments[0]))),
        rate_(std::atof(arguments[1])),
        connections_(static_cast<size_t>(std::atol(arguments[2]))),
        each_(std::strcmp(arguments[3], "each") == 0),
        begin_us_(now_us() + static_cast<uint64_t>(std::atof(arguments[4]) * 1e6)),
        end_us_(begin_us_ + static_cast<uint64_t>(std::atof(arguments[5]) * 1e6)),
        give_up_us_(static_cast<uint64_t>(std::atol(arguments[6])) * 1000),
        late_us_(static_cast<uint64_t>(std::atol(arguments[7])) * 1000),
        epoll_(epoll_create1(0)),
        results_(static_cast<size_t>(paths)) {
    for (int i = 0; i < paths; ++i) {
      const std::string path = arguments[8 + i];
      requests_.push_back({path[0] == '@' ? heads_of(path.substr(1))
                                          : std::vector{"GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"}});
    }
    for (size_t i = connections_.size(); i-- > 0;) closed_.push_back(i);
  }

  void run() {
    const uint64_t began = now_us();
    uint64_t made = 0;
    std::vector<epoll_event> events(512);
    // Responses to the last requests are awaited.
    for (uint64_t now = began; now < end_us_ + late_us_; now = now_us()) {
      const auto until = static_cast<uint64_t>(static_cast<double>(std::min(now, end_us_) - began) * rate_ / 1e6);
      for (; made < until; ++made) {
        const size_t path = made % requests_.size();
        const uint64_t at = began + static_cast<uint64_t>(static_cast<double>(made) / rate_ * 1e6);
        pending_.push_back({at, path});
        if (counts(at)) ++results_[path].due;
      }
      if (each_) open_all();
      send_pending(now);
      const int n = wait(events, began + static_cast<uint64_t>(static_cast<double>(made) / rate_ * 1e6));
      for (int i = 0; i < n; ++i) handle(events[static_cast<size_t>(i)].data.u64);
    }
    for (const Due& due : pending_) {
      if (counts(due.at_us)) ++results_[due.path].given_up;
    }
  }

  void print() const {
    std::printf("[");
    for (size_t i = 0; i < results_.size(); ++i) {
      const Result& r = results_[i];
      std::printf("%s{\"due\": %lu, \"given_up\": %lu, \"late\": %lu, \"broken\": %lu, \"statuses\": {", i ? ", " : "",
                  r.due, r.given_up, r.late, r.broken);
      const char* comma = "";
      for (const auto& [status, count] : r.statuses) {
        std::printf("%s\"%d\": %lu", comma, status, count);
        comma = ", ";
      }
      std::printf("}, \"times_us\": [");
      comma = "";
      for (const uint32_t us : r.times_us) {
        std::printf("%s%u", comma, us);
        comma = ",";
      }
      std::printf("]}");
    }
    std::printf("]\n");
  }

 private:
  static std::vector<std::string> heads_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::vector<std::string> heads;
    for (size_t at = 0, end = 0; (end = text.find("\r\n\r\n", at)) != std::string::npos; at = end + 4) {
      heads.push_back(text.substr(at, end + 4 - at));
    }
    if (heads.empty()) {
      std::fprintf(stderr, "open_loop: %s has no head of a request\n", file.c_str());
      std::exit(2);
    }
    return heads;
  }

  // Until something happens, or the next request falls due: to wait in steps of a millisecond would send it late, and
  // that would count as the server's time. Not longer than 10 ms, so that the end is not missed.
  int wait(std::vector<epoll_event>& events, uint64_t next_us) {
    const uint64_t now = now_us();
    uint64_t us = next_us > now ? std::min<uint64_t>(next_us - now, 10000) : 0;
    // What is pending lacks a connection. That one is free is an event; that a request is given up is not.
    if (!pending_.empty()) us = may_open() ? 0 : std::min<uint64_t>(us, 1000);
    const timespec most{0, static_cast<long>(us * 1000)};
    return epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &most, nullptr);
  }

  // As many spare connections are on their way as can be used.
  bool may_open() const {
    return !each_ && !closed_.empty() && connecting_ < std::min(kMaxConnecting, pending_.size());
  }

  bool counts(uint64_t due_us) const { return due_us >= begin_us_; }

  void send_pending(uint64_t now) {
    while (!pending_.empty()) {
      const Due due = pending_.front();
      if (now > due.at_us + give_up_us_) {
        if (counts(due.at_us)) ++results_[due.path].given_up;
        pending_.pop_front();
        continue;
      }
      if (free_.empty()) {
        if (may_open()) open();
        return;
      }
      const size_t index = each_ ? free_.front() : free_.back();
      each_ ? free_.pop_front() : free_.pop_back();
      Connection& c = connections_[index];
      c.path = due.path;
      c.due_us = due.at_us;
      pending_.pop_front();
      Requests& requests = requests_[due.path];
      const std::string& request = requests.heads[requests.next++ % requests.heads.size()];
      if (send(c.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) fail(index);
    }
  }

  // One attempt for each: a failure is an event of its own, or waits for the next turn.
  void open_all() {
    for (size_t most = closed_.size(); most > 0 && connecting_ < kMaxConnecting; --most) open();
  }

  void open() {
    const size_t index = closed_.back();
    closed_.pop_back();
    Connection& c = connections_[index];
    c.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int on = 1;
    setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c.connecting = true;
    ++connecting_;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.u64 = index;
    if ((connect(c.fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event) != 0) {
      close(index);
    }
  }

  void close(size_t index) {
    Connection& c = connections_[index];
    if (c.connecting) --connecting_;
    if (c.fd >= 0) ::close(c.fd);
    c = Connection();
    closed_.push_back(index);
  }

  void fail(size_t index) {
    const Connection& c = connections_[index];
    if (c.path != kNone && counts(c.due_us)) ++results_[c.path].broken;
    close(index);
  }

  void handle(size_t index) {
    Connection& c = connections_[index];
    if (c.connecting) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(c.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return close(index);
      c.connecting = false;
      --connecting_;
      free_.push_back(index);
      return;
    }
    char buffer[16384];
    for (;;) {
      const ssize_t n = recv(c.fd, buffer, sizeof buffer, 0);
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) {
        if (c.path == kNone) std::erase(free_, index);
        return fail(index);
      }
      c.received.append(buffer, static_cast<size_t>(n));
      if (c.path != kNone && !take_response(index)) return;
    }
  }

  // False if the connection is closed.
  bool take_response(size_t index) {
    Connection& c = connections_[index];
    const size_t head = c.received.find("\r\n\r\n");
    if (head == std::string::npos) return true;
    for (size_t i = 0; i < head; ++i) {
      if (c.received[i] >= 'A' && c.received[i] <= 'Z') c.received[i] = static_cast<char>(c.received[i] + 'a' - 'A');
    }
    const std::string_view text(c.received.data(), head);
    const size_t length_at = text.find("\r\ncontent-length:");
    const size_t length =
        length_at == std::string::npos ? 0 : static_cast<size_t>(std::atol(text.data() + length_at + 17));
    if (c.received.size() < head + 4 + length) return true;
    const uint64_t took = now_us() - c.due_us;
    if (counts(c.due_us)) {
      Result& r = results_[c.path];
      const int status = std::atoi(c.received.c_str() + 9);
      ++r.statuses[status];
      if (status == 200) r.times_us.push_back(static_cast<uint32_t>(took));
      r.late += status == 200 && took > late_us_;
    }
    const bool stays = text.find("\r\nconnection: close") == std::string::npos;
    c.path = kNone;
    c.received.clear();
    if (!stays) {
      close(index);
      return false;
    }
    free_.push_back(index);
    return true;
  }

  const uint16_t port_;
  const double rate_;
  std::vector<Connection> connections_;
  const bool each_;
  const uint64_t begin_us_, end_us_, give_up_us_, late_us_;
  const int epoll_;
  std::vector<Requests> requests_;
  std::vector<Result> results_;
  std::deque<Due> pending_;
  std::deque<size_t> free_;
  std::vector<size_t> closed_;
  size_t connecting_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 10 || (std::string_view(arguments[4]) != "spare" && std::string_view(arguments[4]) != "each")) {
    std::fprintf(stderr, "open_loop PORT RATE CONNECTIONS spare|each WARM_UP_S SECONDS GIVE_UP_MS LATE_MS PATH...\n");
    return 2;
  }
  prctl(PR_SET_TIMERSLACK, 1);  // Otherwise each wait is 50 us longer.
  Client client(arguments + 1, count - 9);
  client.run();
  client.print();
  return 0;
}
