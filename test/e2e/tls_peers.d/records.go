package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"strings"
)

// Raw records of TLS 1.3 after a handshake of crypto/tls, which itself neither pads nor updates keys.

const (
	alertRecord      = 21
	handshakeRecord  = 22
	dataRecord       = 23
	keyUpdate        = 24
	newSessionTicket = 4
	mostPlainBytes   = 1 << 14
)

// Returns whole records, one at a time, so that a handshake reads nothing after its end.
type recordReader struct {
	net.Conn
	left []byte
}

func (r *recordReader) Read(to []byte) (int, error) {
	if len(r.left) == 0 {
		record, err := readRecord(r.Conn)
		if err != nil {
			return 0, err
		}
		r.left = record
	}
	count := copy(to, r.left)
	r.left = r.left[count:]
	return count, nil
}

func readRecord(from io.Reader) ([]byte, error) {
	header := make([]byte, 5)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	record := append(header, make([]byte, binary.BigEndian.Uint16(header[3:]))...)
	_, err := io.ReadFull(from, record[5:])
	return record, err
}

// The keys of one direction (RFC 8446 section 7.3).
type keys struct {
	hash     func() hash.Hash
	keyBytes int
	secret   []byte
	aead     cipher.AEAD
	iv       []byte
	sequence uint64
}

func (k *keys) expand(label string, size int) []byte {
	label = "tls13 " + label
	info := append([]byte{byte(size >> 8), byte(size), byte(len(label))}, label...)
	out, err := hkdf.Expand(k.hash, k.secret, string(append(info, 0)), size)
	check(err)
	return out
}

func (k *keys) set(secret []byte) {
	k.secret, k.sequence = secret, 0
	block, err := aes.NewCipher(k.expand("key", k.keyBytes))
	check(err)
	k.aead, err = cipher.NewGCM(block)
	check(err)
	k.iv = k.expand("iv", 12)
}

func (k *keys) update() { k.set(k.expand("traffic upd", k.hash().Size())) }

func (k *keys) nonce() []byte {
	nonce := append([]byte(nil), k.iv...)
	for i := range 8 {
		nonce[4+i] ^= byte(k.sequence >> (56 - 8*i))
	}
	k.sequence++
	return nonce
}

type records struct {
	conn        net.Conn
	read, write keys
}

func handshake(conn net.Conn, config *tls.Config, done *report) (*records, error) {
	secrets := &strings.Builder{}
	config = config.Clone()
	config.KeyLogWriter, config.SessionTicketsDisabled, config.MinVersion = secrets, true, tls.VersionTLS13
	secured := tls.Server(&recordReader{Conn: conn}, config)
	ours, theirs := "SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0"
	if *listenAt == "" {
		secured = tls.Client(&recordReader{Conn: conn}, config)
		ours, theirs = theirs, ours
	}
	if err := secured.Handshake(); err != nil {
		return nil, err
	}
	describe(secured.ConnectionState(), done)
	made := &records{conn: conn}
	for _, line := range strings.Split(secrets.String(), "\n") {
		words := strings.Fields(line)
		if len(words) != 3 || (words[0] != ours && words[0] != theirs) {
			continue
		}
		secret, err := hex.DecodeString(words[2])
		check(err)
		k := &made.read
		if words[0] == ours {
			k = &made.write
		}
		switch done.Cipher {
		case "TLS_AES_128_GCM_SHA256":
			k.hash, k.keyBytes = sha256.New, 16
		case "TLS_AES_256_GCM_SHA384":
			k.hash, k.keyBytes = sha512.New384, 32
		default:
			return nil, errors.New("no records by hand with " + done.Cipher)
		}
		k.set(secret)
	}
	return made, nil
}

func (r *records) seal(to []byte, kind byte, content []byte, padding int) []byte {
	inner := append(append(append([]byte(nil), content...), kind), make([]byte, padding)...)
	size := len(inner) + 16
	header := []byte{dataRecord, 3, 3, byte(size >> 8), byte(size)}
	return r.write.aead.Seal(append(to, header...), r.write.nonce(), inner, header)
}

func (r *records) open() (kind byte, content []byte, err error) {
	record, err := readRecord(r.conn)
	if err != nil {
		return 0, nil, err
	}
	inner, err := r.read.aead.Open(nil, r.read.nonce(), record[5:], record[:5])
	if err != nil {
		return 0, nil, err
	}
	last := len(inner) - 1
	for inner[last] == 0 {
		last--
	}
	return inner[last], inner[:last], nil
}

// Runs a whole connection; at the other end of the proxy is an echo. One goroutine writes, this one reads.
func runRaw(conn halfCloser, config *tls.Config, done *report) error {
	r, err := handshake(conn, config, done)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- r.sendAll(done) }()
	hash := sha256.New()
	err = r.receiveAll(hash, done)
	done.ReceivedHash = hex.EncodeToString(hash.Sum(nil))
	if err != nil {
		conn.Close()
	}
	return errors.Join(err, <-failed)
}

func (r *records) sendAll(done *report) error {
	source, hash := randomBytes(), sha256.New()
	data := func(size int) []byte {
		content := make([]byte, size)
		source.Read(content)
		hash.Write(content)
		done.SentBytes += int64(size)
		return content
	}
	var err error
	if *do == "sizes" {
		err = r.sendSizes(data)
	} else {
		err = r.sendUpdates(data, done)
	}
	done.SentHash = hex.EncodeToString(hash.Sum(nil))
	if err != nil {
		return err
	}
	_, err = r.conn.Write(r.seal(nil, alertRecord, []byte{1, 0}, 0))
	return err
}

// Records of every size, with padding.
func (r *records) sendSizes(data func(int) []byte) error {
	for _, padding := range strings.Split(*paddings, ",") {
		for size := 0; size <= mostPlainBytes; size += *step {
			room := mostPlainBytes - size
			zeros := map[string]int{"none": 0, "one": min(1, room), "random": rand.IntN(room + 1), "full": room}[padding]
			if _, err := r.conn.Write(r.seal(nil, dataRecord, data(size), zeros)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *records) sendUpdates(data func(int) []byte, done *report) error {
	message := []byte{keyUpdate, 0, 0, 1, 0}
	if *requestUpdate {
		message[4] = 1
	}
	for range *rounds {
		var wire []byte
		for range *updates {
			wire = r.seal(wire, handshakeRecord, message, 0)
			r.write.update()
			done.UpdatesSent++
		}
		if _, err := r.conn.Write(r.seal(wire, dataRecord, data(100), 0)); err != nil {
			return err
		}
	}
	return nil
}

// Reads until a close_notify or another alert.
func (r *records) receiveAll(hash hash.Hash, done *report) error {
	for {
		kind, content, err := r.open()
		switch {
		case err != nil:
			return err
		case kind == dataRecord:
			hash.Write(content)
			done.ReceivedBytes += int64(len(content))
		case kind == alertRecord && len(content) == 2:
			done.Alert = int(content[1])
			return nil
		case kind == handshakeRecord && len(content) == 5 && content[0] == keyUpdate && content[4] == 0:
			r.read.update()
			done.UpdatesReceived++
		case kind == handshakeRecord && len(content) > 4 && content[0] == newSessionTicket:
		default:
			return fmt.Errorf("a record of type %d with %x", kind, content)
		}
	}
}
