// Which listeners share their addresses.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::config {

struct Listener;

/// The listeners of a configuration in groups that have the same addresses. A group with `server_names` shares them:
/// one of its listeners accepts, and finds out by the client's server name which of them a connection is for. So does a
/// listener with `server_names` that is alone, which is for these names only.
class AddressGroups {
 public:
  /// How a listener gets its connections.
  enum class Role : unsigned char {
    kAlone,    ///< It accepts them.
    kAccepts,  ///< It accepts for its group: the one without `server_names`, or else the first.
    kShares,   ///< Another listener of its group accepts.
  };

  /// Keeps nothing of `listeners`. Unless the configuration is valid, only the groups themselves make sense.
  explicit AddressGroups(const std::vector<Listener>& listeners);

  /// The listeners by group, as indices in the order of the configuration.
  const std::vector<std::vector<size_t>>& groups() const { return groups_; }
  /// The group of a listener: an index of groups().
  size_t group_of(size_t listener) const { return group_of_[listener]; }
  /// Identifies the group of a listener: that with the same addresses has it in other configurations, too.
  const std::string& key_of(size_t listener) const { return keys_[group_of_[listener]]; }
  bool same_group(size_t a, size_t b) const { return group_of_[a] == group_of_[b]; }
  Role role(size_t listener) const { return roles_[listener]; }

 private:
  std::vector<std::vector<size_t>> groups_;
  std::vector<size_t> group_of_;
  std::vector<std::string> keys_;  // By group.
  std::vector<Role> roles_;
};

}  // namespace sluice::config
