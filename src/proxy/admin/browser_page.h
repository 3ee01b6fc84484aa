#pragma once

#include <string_view>

namespace sluice {

/// The page of the admin listener for browsers: page.html, which the build puts into the program. It shows nothing by
/// itself; its script requests the other pages. Both texts last as long as the process.
std::string_view browser_page();

/// Whether a client that sends this Accept field wants it: one that names text/html, as browsers do. `*/*`, which curl
/// sends, does not.
bool wants_browser_page(std::string_view accept);

/// Its Content-Security-Policy: its own script and style, by their hashes, requests to the admin listener, and nothing
/// else. Without a `<script>` or `<style>` in the page it allows none.
std::string_view browser_page_policy();

}  // namespace sluice
