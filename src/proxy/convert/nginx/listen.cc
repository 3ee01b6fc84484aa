#include "proxy/convert/nginx/listen.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {
namespace {

// One address, and the servers on it.
struct ListenSocket {
  std::string address;
  ServerGroup group;
};

// Reads the words behind the address. Returns false if the socket cannot be one of Sluice's.
bool read_options(const Directive& listen, ListenSocket& socket, bool& is_default, State& state) {
  for (size_t i = 1; i < listen.args.size(); ++i) {
    std::string_view word = listen.args[i];
    if (word == "ssl") {
      socket.group.has_tls = true;
    } else if (word == "http2") {
      socket.group.has_http2 = true;
    } else if (word == "proxy_protocol") {
      socket.group.has_proxy_protocol = true;
    } else if (word == "default_server" || word == "default") {
      is_default = true;
    } else if (word == "udp" || word == "quic" || word == "http3") {
      state.refuse(listen, absl::StrCat("there is no ", word == "udp" ? "UDP" : "HTTP/3", ": the address is left out"));
      return false;
    } else if (word == "ipv6only=off") {
      socket.group.ipv6_only = false;
    } else if (absl::ConsumePrefix(&word, "backlog=")) {
      socket.group.backlog = word;
    } else if (word != "ipv6only=on" && word != "reuseport" && word != "bind") {
      state.ignore(listen, absl::StrCat("sockets have Sluice's own settings: ", config::in_quotes(word)));
    }
  }
  return true;
}

class SocketTable {
 public:
  explicit SocketTable(State& state) : state_(state) {}

  void add(const Directive& server, const Directive& listen) {
    const std::optional<std::string> address = address_of(listen.arg(0), "80", /*listens=*/true);
    if (!address) {
      return state_.refuse(listen, absl::StrCat(config::in_quotes(listen.arg(0)), " is no address: it is left out"));
    }
    ListenSocket socket{.address = *address, .group = {}};
    socket.group.ipv6_only = address->starts_with("[::]:");
    bool is_default = false;
    if (!read_options(listen, socket, is_default, state_)) return;
    auto known =
        std::find_if(sockets_.begin(), sockets_.end(), [&](const ListenSocket& s) { return s.address == *address; });
    if (known == sockets_.end()) {
      socket.group.addresses = {*address};
      socket.group.listen = &listen;
      if (!address->starts_with("unix:")) socket.group.port = address->substr(address->rfind(':') + 1);
      known = sockets_.insert(sockets_.end(), std::move(socket));
    } else {
      // What one of the servers says holds for the socket.
      known->group.has_tls = known->group.has_tls || socket.group.has_tls;
      known->group.has_http2 = known->group.has_http2 || socket.group.has_http2;
      known->group.has_proxy_protocol = known->group.has_proxy_protocol || socket.group.has_proxy_protocol;
    }
    std::vector<const Directive*>& servers = known->group.servers;
    if (std::find(servers.begin(), servers.end(), &server) != servers.end()) return;
    servers.insert(is_default ? servers.begin() : servers.end(), &server);
  }

  std::vector<ServerGroup> groups() {
    drop_ambiguous();
    std::vector<ServerGroup> made;
    for (const ListenSocket& socket : sockets_) {
      const auto same = std::find_if(made.begin(), made.end(), [&](const ServerGroup& g) {
        return g.servers == socket.group.servers && g.has_tls == socket.group.has_tls && g.port == socket.group.port &&
               g.has_http2 == socket.group.has_http2 && g.has_proxy_protocol == socket.group.has_proxy_protocol;
      });
      if (same == made.end()) {
        made.push_back(socket.group);
      } else {
        same->addresses.push_back(socket.address);
        same->ipv6_only = same->ipv6_only || socket.group.ipv6_only;
      }
    }
    for (ServerGroup& group : made) {
      // Then it is so in any case.
      const bool has_ip4 = std::any_of(sockets_.begin(), sockets_.end(), [&](const ListenSocket& s) {
        return s.group.port == group.port && !s.address.starts_with('[') && !s.address.starts_with("unix:");
      });
      if (has_ip4) group.ipv6_only = false;
    }
    return made;
  }

 private:
  // nginx chooses between `*:80` and `10.0.0.1:80` by the address to which a connection was made.
  void drop_ambiguous() {
    std::vector<std::string> dropped;
    for (const ListenSocket& wide : sockets_) {
      const auto a = config::Address::parse(wide.address);
      if (!a.ok() || a->kind() == config::Address::Kind::kUnix || !a->is_wildcard()) continue;
      for (const ListenSocket& narrow : sockets_) {
        const auto b = config::Address::parse(narrow.address);
        if (!b.ok() || b->kind() != a->kind() || b->is_wildcard() || a->port() != b->port()) continue;
        state_.refuse(*narrow.group.listen,
                      absl::StrCat("an address cannot be beside all of them, ", wide.address, ": both are left out"));
        dropped.push_back(wide.address);
        dropped.push_back(narrow.address);
      }
    }
    std::erase_if(sockets_, [&](const ListenSocket& s) {
      return std::find(dropped.begin(), dropped.end(), s.address) != dropped.end();
    });
  }

  State& state_;
  std::vector<ListenSocket> sockets_;
};

const Directive& default_listen() {
  static const Directive kListen{.name = "listen", .args = {"80"}};
  return kListen;
}

}  // namespace

std::vector<ServerGroup> server_groups(const Directive& context, State& state) {
  SocketTable table(state);
  for (const Directive* const server : context.all("server")) {
    const std::vector<const Directive*> listens = server->all("listen");
    for (const Directive* const listen : listens) table.add(*server, *listen);
    if (listens.empty() && context.name == "http") table.add(*server, default_listen());
  }
  return table.groups();
}

}  // namespace sluice::convert::nginx
