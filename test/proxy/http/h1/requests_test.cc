// How a server parses requests: each rule of RFC 9112 that keeps requests apart, and how they end.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "test/proxy/http/h1/rig.h"

namespace sluice {
namespace {

struct Case {
  std::string_view raw;  // See test::wire.
  // What the origin receives; then `!status reason` if the server refuses the rest.
  std::string_view expected;
};

// Most requests are sent with `Host: a`.
#define H "Host: a\n"
#define GET "GET / HTTP/1.1\n" H
#define POST "POST / HTTP/1.1\n" H
#define CHUNKED POST "Transfer-Encoding: chunked\n\n"

constexpr Case kCases[] = {
    // ---- The request line ----
    {GET "\n", "GET http a /."},
    {"GET /x/../y?q=1&r=%20 HTTP/1.1\n" H "\n", "GET http a /x/../y?q=1&r=%20."},
    {"DELETE /x HTTP/1.1\n" H "\n", "DELETE http a /x."},
    {"PROPFIND /x HTTP/1.1\n" H "\n", "PROPFIND http a /x."},
    {"QUERY /x HTTP/1.1\n" H "\n", "QUERY http a /x."},
    {"GET  / HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET /  HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET / HTTP/1.1 \n" H "\n", "!400 a malformed request target"},
    {"GET\t/ HTTP/1.1\n" H "\n", "!400 a request line without exactly three parts"},
    {"GET /\tHTTP/1.1\n" H "\n", "!400 a request line without exactly three parts"},
    {"GET /a b HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET /\n" H "\n", "!400 a request line without exactly three parts"},
    {"GET\n" H "\n", "!400 a request line without exactly three parts"},
    {" GET / HTTP/1.1\n" H "\n", "!400 a message that does not begin like HTTP"},
    {"\tGET / HTTP/1.1\n" H "\n", "!400 a message that does not begin like HTTP"},
    {"G(T / HTTP/1.1\n" H "\n", "!400 a method that is not a token"},
    {"G\xC4T / HTTP/1.1\n" H "\n", "!400 a method that is not a token"},
    // Defect: methods that the parser's library did not know got a 501, but were forwarded from HTTP/2.
    {"GETS / HTTP/1.1\n" H "\n", "GETS http a /."},
    {"BREW / HTTP/1.1\n" H "\n", "BREW http a /."},
    {"LABEL /x HTTP/1.1\n" H "\n", "LABEL http a /x."},
    {"UPDATE /x HTTP/1.1\n" H "Content-Length: 2\n\nhi", "UPDATE http a /x {content-length: 2} 'hi'."},
    {"B /x HTTP/1.1\n" H "Transfer-Encoding: chunked\n\n2\nhi\n0\n\n", "B http a /x 'hi'."},
    {"!#$%&'*+-.^_`|~9 / HTTP/1.1\n" H "\n", "!#$%&'*+-.^_`|~9 http a /."},
    {"get / HTTP/1.1\n" H "\n", "!501 a method that is not forwarded"},
    {"xGET / HTTP/1.1\n" H "\n", "!501 a method that is not forwarded"},
    {"PRI / HTTP/1.1\n" H "\n", "!501 a method that is not forwarded"},
    {"PLAY / HTTP/1.1\n" H "\n", "PLAY http a /."},
    {"connect a:80 HTTP/1.1\n" H "\n", "!501 a method that is not forwarded"},
    {"Head / HTTP/1.1\n" H "\n", "!501 a method that is not forwarded"},
    // Defect: a later minor version was refused, which must be treated as 1.1 (RFC 9110 section 2.5).
    {"GET / HTTP/1.2\n" H "\n" GET "\n", "GET http a /.\nGET http a /."},
    {"GET / HTTP/1.9\n\n", "!400 no Host"},
    {"POST / HTTP/1.2\n" H "Transfer-Encoding: chunked\n\n0\n\n", "POST http a /."},
    {"GET / HTTP/0.9\n" H "\n", "!505 a version other than HTTP/1.0 and 1.1"},
    {"GET / HTTP/2.0\n" H "\n", "!505 a version other than HTTP/1.0 and 1.1"},
    {"PRI * HTTP/2.0\n\nSM\n\n", "!505 a version other than HTTP/1.0 and 1.1"},
    {"GET / HTTP/1.10\n" H "\n", "!400 no HTTP version"},
    {"GET / HTTP/11\n" H "\n", "!400 no HTTP version"},
    {"GET / http/1.1\n" H "\n", "!400 no HTTP version"},
    {"GET / HTTPS/1.1\n" H "\n", "!400 no HTTP version"},
    {"GET / ICE/1.0\n" H "\n", "!400 no HTTP version"},
    {"\x16\x03\x01\x02", "!400 a message that does not begin like HTTP"},
    {"SSH-2.0-OpenSSH_9.2\n", ""},
    // ---- The target ----
    {"GET /#x HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET /\xC3\xA4 HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET /\x01 HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET /\x7f HTTP/1.1\n" H "\n", "!400 a malformed request target"},
    {"GET //b/ HTTP/1.1\n" H "\n", "GET http a //b/."},
    {"GET x HTTP/1.1\n" H "\n", "!400 a request target that is neither a path nor an HTTP URI"},
    {"GET ?x HTTP/1.1\n" H "\n", "!400 a request target that is neither a path nor an HTTP URI"},
    {"GET * HTTP/1.1\n" H "\n", "!400 a request target * without OPTIONS"},
    {"OPTIONS * HTTP/1.1\n" H "\n", "OPTIONS http a *."},
    {"GET http://b/x HTTP/1.1\n" H "\n", "GET http b /x."},
    {"GET HTTP://b:81/x HTTP/1.1\n" H "\n", "GET http b:81 /x."},
    {"GET https://b/x HTTP/1.1\n" H "\n", "GET http b /x."},
    {"GET http://b HTTP/1.1\n" H "\n", "GET http b /."},
    {"GET http://b?q HTTP/1.1\n" H "\n", "GET http b /?q."},
    {"OPTIONS http://b HTTP/1.1\n" H "\n", "OPTIONS http b *."},
    {"GET ftp://b/ HTTP/1.1\n" H "\n", "!400 a request target that is neither a path nor an HTTP URI"},
    {"GET http://u@b/ HTTP/1.1\n" H "\n", "!400 a request target with a malformed authority"},
    {"GET http:///x HTTP/1.1\n" H "\n", "!400 a request target with a malformed authority"},
    {"GET http://b:x/ HTTP/1.1\n" H "\n", "!400 a request target with a malformed authority"},
    {"GET http://[::1]/ HTTP/1.1\n" H "\n", "GET http [::1] /."},
    {"GET a:80 HTTP/1.1\n" H "\n", "!400 a request target that is neither a path nor an HTTP URI"},
    {"GET http://b:/x HTTP/1.1\n" H "\n", "GET http b /x."},
    {"GET http://%61/ HTTP/1.1\n" H "\n", "!400 a request target with a malformed authority"},
    {"CONNECT a:80 HTTP/1.1\n" H "\n", "!501 the method CONNECT is not allowed"},
    // ---- Host ----
    {"GET / HTTP/1.1\n\n", "!400 no Host"},
    {"GET / HTTP/1.1\nHost:\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: a\nHost: a\n\n", "!400 more than one Host"},
    {"GET / HTTP/1.1\nHost: a\nhOST: b\n\n", "!400 more than one Host"},
    {"GET / HTTP/1.1\nHost: a, b\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: a b\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: u@a\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: a/x\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: a?x\n\n", "!400 a malformed Host"},
    // Defect: an empty port was refused, which RFC 3986 section 3.2.3 allows.
    {"GET / HTTP/1.1\nHost: a:\n\n", "GET http a /."},
    {"GET / HTTP/1.1\nHost: [::1]:\n\n", "GET http [::1] /."},
    {"GET / HTTP/1.1\nHost: a::\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: :\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: :80\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: %61\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [v1.a]\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: a:65536\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: a:-1\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [::1\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [::1]x\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [::g]\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: \xC3\xA4\n\n", "!400 a malformed Host"},
    // Defect: any hexadecimal digits, colons and dots in brackets were accepted (RFC 3986 section 3.2.2).
    {"GET / HTTP/1.1\nHost: [1:2]\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [:::::]\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [1.2.3.4]\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: []\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:0:1:2:3:4:5]\n\n", "!400 a malformed Host"},
    {"GET / HTTP/1.1\nHost: [2001:DB8::1.2.3.4]\n\n", "GET http [2001:DB8::1.2.3.4] /."},
    {"GET http://[1:2]/ HTTP/1.1\nHost: a\n\n", "!400 a request target with a malformed authority"},
    {"GET / HTTP/1.1\nHost: [::1]:8080\n\n", "GET http [::1]:8080 /."},
    {"GET / HTTP/1.1\nHost:  a.example.com:80 \t\n\n", "GET http a.example.com:80 /."},
    {"GET / HTTP/1.0\n\n", "GET http - /."},
    {"GET / HTTP/1.0\nHost: b\n\n", "GET http b /."},
    // ---- Lines and fields ----
    {GET "Accept: */*\nX-Y:\nz: \t a \t b \t\n\n", "GET http a / {accept: */*; x-y: ; z: a \t b}."},
    {GET "A: 1\na: 2\n\n", "GET http a / {a: 1; a: 2}."},
    {GET "a: \xC3\xA4\n\n", "GET http a / {a: \xC3\xA4}."},
    {"GET / HTTP/1.1\v" H "\n", "!400 a line that does not end with CR LF"},
    {"GET / HTTP/1.1\nHost: a\v\n", "!400 a line that does not end with CR LF"},
    {GET "a: b\v\v", "!400 a line that does not end with CR LF"},
    {GET "\v", "!400 a line that does not end with CR LF"},
    {GET "a: b\fc: d\n\n", "!400 a field value with invalid characters"},
    {GET "a: b\f\n\n", "!400 a field value with invalid characters"},
    {GET "\fGET /x HTTP/1.1\n\n", "!400 a field name that is not a token"},
    {GET "a: b\n c\n\n", "!400 a field line that begins with white space"},
    {GET "a: b\n\tc\n\n", "!400 a field line that begins with white space"},
    {GET " \n\n", "!400 a field line that begins with white space"},
    {"GET / HTTP/1.1\n Host: a\n\n", "!400 a field line that begins with white space"},
    {"GET / HTTP/1.1\n\tHost: a\n\n", "!400 a field line that begins with white space"},
    {GET "Expect: 100-\n continue\n\n", "!400 a field line that begins with white space"},
    {GET "a : b\n\n", "!400 white space between a field's name and its colon"},
    {GET "a\t: b\n\n", "!400 white space between a field's name and its colon"},
    {GET ": b\n\n", "!400 a field name that is not a token"},
    {GET "a b: c\n\n", "!400 white space between a field's name and its colon"},
    {GET "a\n\n", "!400 a field line without a colon"},
    {GET "(a): b\n\n", "!400 a field name that is not a token"},
    {GET "a\xC3: b\n\n", "!400 a field name that is not a token"},
    {GET "a[b]: c\n\n", "!400 a field name that is not a token"},
    {GET "a: b\x01\n\n", "!400 a field value with invalid characters"},
    {GET "a: \x1b[0m\n\n", "!400 a field value with invalid characters"},
    {GET "a: b\x7f\n\n", "!400 a field value with invalid characters"},
    {GET "a: \b\n\n", "!400 a field value with invalid characters"},
    {GET "a_b: c\n\n", "!400 a field name with an underscore"},
    {GET "Content_Length: 5\n\n", "!400 a field name with an underscore"},
    // ---- Content-Length ----
    {POST "Content-Length: 5\n\nhello", "POST http a / {content-length: 5} 'hello'."},
    {POST "Content-Length: 0\n\n", "POST http a / {content-length: 0}."},
    {POST "Content-Length: 005\n\nhello", "POST http a / {content-length: 5} 'hello'."},
    {POST "Content-Length:5\n\nhello" GET "\n", "POST http a / {content-length: 5} 'hello'.\nGET http a /."},
    {GET "Content-Length: 5\n\nhello", "GET http a / {content-length: 5} 'hello'."},
    {POST "\n", "POST http a /."},
    {POST "Content-Length: +5\n\nhello", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: -5\n\nhello", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 0x5\n\nhello", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 5.0\n\nhello", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 5 5\n\nhello", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 5, 5\n\nhello", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 5\nContent-Length: 5\n\nhello", "!400 more than one Content-Length"},
    {POST "Content-Length: 5\nContent-Length: 6\n\nhello", "!400 more than one Content-Length"},
    {POST "Content-Length:\n\n", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 9223372036854775808\n\n", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length: 18446744073709551616\n\n", "!400 a Content-Length that is not a number below 2^63"},
    {POST "Content-Length : 5\n\nhello", "!400 white space between a field's name and its colon"},
    // ---- Transfer-Encoding ----
    {CHUNKED "5\nhello\n0\n\n", "POST http a / 'hello'."},
    {CHUNKED "5\nhello\n6\n world\n0\n\n" GET "\n", "POST http a / 'hello world'.\nGET http a /."},
    {CHUNKED "0\n\n", "POST http a /."},
    {POST "Transfer-Encoding: ChunKed\n\n00\n\n", "POST http a /."},
    {CHUNKED "0000000000000005\nhello\n000\n\n", "POST http a / 'hello'."},
    {CHUNKED "A\n0123456789\na\n0123456789\n0\n\n", "POST http a / '01234567890123456789'."},
    {CHUNKED "5;a=b;c=\"d\"\nhello\n0;x\n\n", "POST http a / 'hello'."},
    {POST "Transfer-Encoding: chunked\nContent-Length: 5\n\n0\n\n", "!400 both Transfer-Encoding and Content-Length"},
    {POST "Content-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n", "!400 both Transfer-Encoding and Content-Length"},
    {POST "Content-Length: 0\nTransfer-Encoding: chunked\n\n0\n\n", "!400 both Transfer-Encoding and Content-Length"},
    {POST "Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n0\n\n", "!400 more than one Transfer-Encoding"},
    {POST "Transfer-Encoding: chunked, chunked\n\n0\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: gzip, chunked\n\n0\n\n", "!501 a transfer coding other than chunked"},
    {POST "Transfer-Encoding: gzip\nTransfer-Encoding: chunked\n\n0\n\n",
     "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: chunked, gzip\n\n0\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: identity\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: xchunked\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: chunked;q=1\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: \"chunked\"\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding:\n\n", "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding: \x0b"
          "chunked\n\n",
     "!400 a line that does not end with CR LF"},
    {POST "Transfer-Encoding: chunk\xC3\xA9"
          "d\n\n",
     "!400 a Transfer-Encoding that is not chunked"},
    {POST "Transfer-Encoding : chunked\n\n", "!400 white space between a field's name and its colon"},
    {POST "Transfer-Encoding\n : chunked\n\n", "!400 a field line without a colon"},
    {"POST / HTTP/1.0\nTransfer-Encoding: chunked\n\n0\n\n", "!400 a Transfer-Encoding in HTTP/1.0"},
    {"POST / HTTP/1.0\nContent-Length: 2\n\nhi", "POST http - / {content-length: 2} 'hi'."},
    // ---- Chunks ----
    {CHUNKED "\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "5 \nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED " 5\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "0x5\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "+5\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "-5\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "5_0\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "g\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "5\vhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "5\fhello\n", "POST http a / reset: malformed!400 a chunk's header that does not end with CR LF"},
    {CHUNKED "5;a\vhello\n", "POST http a / reset: malformed!400 a chunk extension with invalid characters"},
    {CHUNKED "5;a\fb\nhello\n", "POST http a / reset: malformed!400 a chunk's header that does not end with CR LF"},
    {CHUNKED "5;\x01\nhello\n", "POST http a / reset: malformed!400 a chunk extension with invalid characters"},
    {CHUNKED ";a\nhello\n", "POST http a / reset: malformed!400 a malformed chunk size"},
    {CHUNKED "8000000000000000\n", "POST http a / reset: malformed!400 a chunk size that is too large"},
    {CHUNKED "00000000000000005\n", "POST http a / reset: malformed!400 a chunk size that is too large"},
    {CHUNKED "5\nhello0\n\n", "POST http a / 'hello' reset: malformed!400 a chunk that does not end with CR LF"},
    {CHUNKED "5\nhello\v0\n\n", "POST http a / 'hello' reset: malformed!400 a chunk that does not end with CR LF"},
    {CHUNKED "5\nhello\f0\n\n", "POST http a / 'hello' reset: malformed!400 a chunk that does not end with CR LF"},
    {CHUNKED "5\nhello world\n0\n\n",
     "POST http a / 'hello' reset: malformed!400 a chunk that does not end with CR LF"},
    // ---- Trailers ----
    {CHUNKED "5\nhello\n0\nA: b\nc:d\n\n", "POST http a / 'hello' {a: b; c: d}."},
    {CHUNKED "0\nA: b\n\n" GET "\n", "POST http a / {a: b}.\nGET http a /."},
    {CHUNKED "0\nContent-Length: 5\nHost: b\nTe: trailers\nCookie: c\nx: y\n\n", "POST http a / {x: y}."},
    {CHUNKED "0\nAuthorization: x\nX-Forwarded-For: y\nConnection: close\nUpgrade: z\n\n", "POST http a /."},
    {CHUNKED "0\nTransfer-Encoding: chunked\nx: y\n\n", "POST http a / {x: y}."},
    {CHUNKED "0\nContent-Length: 50\nTransfer-Encoding: chunked\n\n",
     "POST http a / reset: malformed!400 both Transfer-Encoding and Content-Length"},
    {CHUNKED "0\nContent-Length: x\n\n",
     "POST http a / reset: malformed!400 a Content-Length that is not a number below 2^63"},
    {CHUNKED "0\na : b\n\n", "POST http a / reset: malformed!400 white space between a field's name and its colon"},
    {CHUNKED "0\na: b\n c\n\n", "POST http a / reset: malformed!400 a field line that begins with white space"},
    {CHUNKED "0\na: b\v\n", "POST http a / reset: malformed!400 a line that does not end with CR LF"},
    {CHUNKED "0\na_b: c\n\n", "POST http a / reset: malformed!400 a field name with an underscore"},
    {CHUNKED "0\n\v", "POST http a / reset: malformed!400 a line that does not end with CR LF"},
    {CHUNKED "0\nGET / HTTP/1.1\n\n",
     "POST http a / reset: malformed!400 white space between a field's name and its colon"},
    // ---- Fields for the connection only ----
    {GET "Connection: keep-alive\nKeep-Alive: timeout=5\nProxy-Connection: x\n\n", "GET http a /."},
    {GET "Connection: x-y, Z\nX-Y: 1\nz: 2\nw: 3\n\n", "GET http a / {w: 3}."},
    {GET "X-Y: 1\nx-y: 2\nConnection: , x-y ,\n\n", "GET http a /."},
    {GET "Connection: host\n\n", "!400 a Connection option that names an end-to-end field"},
    {GET "Connection: Content-Length\n\n", "!400 a Connection option that names an end-to-end field"},
    {GET "Connection: authorization\n\n", "!400 a Connection option that names an end-to-end field"},
    {GET "Connection: close, cookie\n\n", "!400 a Connection option that names an end-to-end field"},
    {GET "Connection: X-Forwarded-For\n\n", "!400 a Connection option that names an end-to-end field"},
    {GET "Connection: a b\n\n", "!400 a Connection option that is not a token"},
    {GET "TE: trailers\n\n", "GET http a / {te: trailers}."},
    {GET "TE: gzip, Trailers\nTE: trailers\nConnection: TE\n\n", "GET http a / {te: trailers}."},
    {GET "TE: gzip;q=1\n\n", "GET http a /."},
    {GET "Trailer: x\n\n", "GET http a / {trailer: x}."},
    {GET "Upgrade: h2c\nConnection: Upgrade, HTTP2-Settings\nHTTP2-Settings: x\n\n", "GET http a /."},
    {GET "Upgrade: websocket\n\n", "GET http a /."},
    // ---- Expect ----
    {POST "Expect: 100-Continue\nContent-Length: 2\n\nhi",
     "POST http a / {content-length: 2; expect: 100-continue} 'hi'."},
    {GET "Expect: 100-continue\n\n", "GET http a /."},
    {GET "Expect: 200-ok\n\n", "!417 an expectation that is not 100-continue"},
    {POST "Expect: 100-continue, x\nContent-Length: 2\n\nhi", "!417 an expectation that is not 100-continue"},
    {"POST / HTTP/1.0\nExpect: y\nContent-Length: 2\n\nhi", "POST http - / {content-length: 2} 'hi'."},
    // ---- Several requests in a row ----
    {GET "\n" GET "\n" GET "\n", "GET http a /.\nGET http a /.\nGET http a /."},
    {GET "\n\n" GET "\n", "GET http a /.\nGET http a /."},
    {"\n" GET "\n", "GET http a /."},
    {"\n\n" GET "\n", "!400 a message that does not begin like HTTP"},
    {"\v" GET "\n", "!400 a message that does not begin like HTTP"},
    {"\f" GET "\n", "!400 a message that does not begin like HTTP"},
    {GET "Connection: close\n\n" GET "\n", "GET http a /."},
    {"GET / HTTP/1.0\n\nGET / HTTP/1.0\n\n", "GET http - /."},
    {"GET / HTTP/1.0\nConnection: Keep-Alive\n\nGET / HTTP/1.0\n\n", "GET http - /.\nGET http - /."},
    {"GET / HTTP/1.0\nConnection: Keep-Alive, close\n\nGET / HTTP/1.0\n\n", "GET http - /."},
    {POST "Content-Length: 3\n\nabcd", "POST http a / {content-length: 3} 'abc'."},
    {GET "\n"
         "x y z\n\n",
     "GET http a /.!400 no HTTP version"},
};

class Requests : public test::Http1Test, public testing::WithParamInterface<size_t> {
 protected:
  std::string outcome(std::string_view raw, const std::vector<size_t>& cuts) {
    test::Http1Origin origin;
    Http1Server server(pool_, options_, counters_, origin);
    const std::string sent = test::feed(server, raw, cuts);
    std::string text = origin.text;
    if (server.status() == HttpCodec::Status::kFailed) {
      // The last response has the reason, and `Connection: close`.
      const size_t last = sent.rfind("HTTP/1.1 ");
      EXPECT_NE(last, std::string::npos);
      if (last == std::string::npos) return text;
      const std::string response = sent.substr(last);
      EXPECT_NE(response.find("\r\nconnection: close\r\n"), std::string::npos) << response;
      EXPECT_TRUE(response.ends_with("\r\n\r\n" + std::string(server.error()) + "\n")) << response;
      text += "!" + response.substr(9, 3) + " " + std::string(server.error());
    }
    return text;
  }
};

TEST_P(Requests, AreParsedHoweverTheyAreCut) {
  const Case& test_case = kCases[GetParam()];
  const std::string raw = test::wire(test_case.raw);
  ASSERT_EQ(outcome(raw, {}), test_case.expected) << test_case.raw;
  for (size_t cut = 1; cut < raw.size(); ++cut) {
    ASSERT_EQ(outcome(raw, {cut}), test_case.expected) << test_case.raw << "\ncut at " << cut;
  }
  ASSERT_EQ(outcome(raw, test::splits_every(1, raw.size())), test_case.expected) << test_case.raw << "\nbyte by byte";
}

INSTANTIATE_TEST_SUITE_P(Http1, Requests, testing::Range(size_t{0}, std::size(kCases)));

TEST_F(Requests, NulIsRefused) {
  using std::string_literals::operator""s;
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: a\r\na: b\0c\r\n\r\n"s, {}), "!400 a field value with invalid characters");
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: a\r\na\0: b\r\n\r\n"s, {}), "!400 a field name that is not a token");
  EXPECT_EQ(outcome("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"s, {}), "!400 a malformed request target");
}

// ---- Limits. Each at its exact value, and while the line or head is incomplete. ----

std::string request(const std::string& fields) { return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"; }

TEST_F(Requests, RequestLineIsBounded) {
  options_.limits.start_line_bytes = 40;
  const auto line = [](size_t bytes) { return "GET /" + std::string(bytes - 14, 'x') + " HTTP/1.1"; };
  EXPECT_EQ(outcome(line(40) + "\r\nHost: a\r\n\r\n", {}), "GET http a /" + std::string(26, 'x') + ".");
  EXPECT_EQ(outcome(line(41) + "\r\nHost: a\r\n\r\n", {}), "!414 a start line that is too long");
  EXPECT_EQ(outcome(std::string(42, 'x'), {}), "!414 a start line that is too long");
  EXPECT_EQ(counters_.too_large, 2u);
}

// Defect: a field line had a limit of its own, 16 KiB, however large a head could be.
TEST_F(Requests, FieldMayBeAsLargeAsTheHead) {
  options_.limits.head_bytes = size_t{60} * 1024;
  const std::string value(size_t{59} * 1024, 'x');
  EXPECT_EQ(outcome(request("a: " + value + "\r\n"), {}), "GET http a / {a: " + value + "}.");
  EXPECT_EQ(outcome(request("a: " + std::string(size_t{60} * 1024, 'x') + "\r\n"), {}),
            "!431 a head that is too large");
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\n" + std::string(size_t{60} * 1024, 'x'), {}), "!431 a head that is too large");
}

TEST_F(Requests, HeadIsBounded) {
  options_.limits.head_bytes = 100;
  EXPECT_EQ(outcome(request("a: " + std::string(68, 'x') + "\r\n"), {}),
            "GET http a / {a: " + std::string(68, 'x') + "}.");
  EXPECT_EQ(outcome(request("a: " + std::string(69, 'x') + "\r\n"), {}), "!431 a head that is too large");
}

TEST_F(Requests, FieldCountIsBounded) {
  options_.limits.fields = 3;
  EXPECT_EQ(outcome(request("a: b\r\nc: d\r\n"), {}), "GET http a / {a: b; c: d}.");
  EXPECT_EQ(outcome(request("a: b\r\nc: d\r\ne: f\r\n"), {}), "!431 too many fields");
}

TEST_F(Requests, ConnectionOptionCountIsBounded) {
  options_.limits.connection_options = 2;
  EXPECT_EQ(outcome(request("Connection: a, close, b\r\na: 1\r\nb: 2\r\n"), {}), "GET http a /.");
  EXPECT_EQ(outcome(request("Connection: a, b, c\r\n"), {}), "!431 too many connection options");
}

TEST_F(Requests, ChunkExtensionsAreBounded) {
  const auto chunked = [](const std::string& body) {
    return "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body;
  };
  EXPECT_EQ(outcome(chunked("1;" + std::string(256, 'x') + "\r\na\r\n0\r\n\r\n"), {}), "POST http a / 'a'.");
  EXPECT_EQ(outcome(chunked("1;" + std::string(257, 'x') + "\r\na\r\n0\r\n\r\n"), {}),
            "POST http a / reset: too large!400 a chunk extension that is too long");
}

// Defect: they had limits of their own, 16 fields and 4 KiB, which nothing could change.
TEST_F(Requests, TrailersAreBoundedLikeHeads) {
  options_.limits.fields = 40;
  options_.limits.head_bytes = size_t{10} * 1024;
  const auto trailers = [](const std::string& fields) {
    return "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + fields + "\r\n";
  };
  std::string fields;
  for (int i = 0; i < 40; ++i) fields += "a: b\r\n";
  EXPECT_TRUE(outcome(trailers(fields), {}).ends_with("a: b}."));
  EXPECT_EQ(outcome(trailers(fields + "c: d\r\n"), {}), "POST http a / reset: too large!431 too many fields");
  const std::string value(size_t{9} * 1024, 'x');
  EXPECT_EQ(outcome(trailers("a: " + value + "\r\n"), {}), "POST http a / {a: " + value + "}.");
  EXPECT_EQ(outcome(trailers("a: " + std::string(size_t{10} * 1024, 'x') + "\r\n"), {}),
            "POST http a / reset: too large!431 a head that is too large");
}

TEST_F(Requests, DefaultLimits) {
  const std::string path(8 * 1024 - 14, 'x');
  EXPECT_EQ(outcome("GET /" + path + " HTTP/1.1\r\nHost: a\r\n\r\n", {}), "GET http a /" + path + ".");
  std::string fields;
  for (int i = 0; i < 99; ++i) fields += "name: " + std::string(250, 'v') + "\r\n";
  EXPECT_TRUE(outcome(request(fields), {}).starts_with("GET http a / {name: vvv"));
  EXPECT_EQ(outcome(request(fields + "a: b\r\n"), {}), "!431 too many fields");
  // A response's head may be larger than fields can be, and is then refused in order.
  options_.limits = Http1Limits::of_responses();
  options_.limits.fields = 20000;
  fields.clear();
  while (fields.size() < 64 * 1024 - 100) fields += "a:\r\n";
  EXPECT_EQ(outcome(request(fields), {}), "!431 a head that is too large");
}

// ---- Options, and how often they applied ----

TEST_F(Requests, Underscores) {
  options_.allow_underscores = true;
  EXPECT_EQ(outcome(request("a_b: c\r\n"), {}), "GET http a / {a_b: c}.");
  EXPECT_EQ(counters_.underscores, 1u);
}

TEST_F(Requests, NoEmptyLine) {
  EXPECT_EQ(outcome("\r\n" + request(""), {}), "GET http a /.");
  EXPECT_EQ(counters_.empty_lines, 1u);
  options_.allow_empty_line = false;
  EXPECT_EQ(outcome("\r\n" + request(""), {}), "!400 a message that does not begin like HTTP");
}

TEST_F(Requests, Connect) {
  options_.allow_connect = true;
  EXPECT_EQ(outcome("CONNECT b:443 HTTP/1.1\r\nHost: b\r\n\r\nxyz", {}), "CONNECT http b:443 - 'xyz");
  EXPECT_EQ(counters_.connects, 1u);
  for (const char* const target : {"b", "/x", "http://b:1/", "b:", "u@b:1", "*"}) {
    EXPECT_TRUE(outcome("CONNECT " + std::string(target) + " HTTP/1.1\r\nHost: b\r\n\r\n", {}).starts_with("!400"))
        << target;
  }
  EXPECT_EQ(outcome("CONNECT b:1 HTTP/1.1\r\nHost: b\r\nContent-Length: 1\r\n\r\nx", {}), "!400 a CONNECT with a body");
}

TEST_F(Requests, SchemeIsThatOfTheConnection) {
  options_.secure = true;
  EXPECT_EQ(outcome("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", {}), "GET https b /.");
}

}  // namespace
}  // namespace sluice
