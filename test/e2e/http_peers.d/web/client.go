package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

// The response.
type responseReport struct {
	Status    int
	Proto     string
	Header    http.Header
	Trailer   http.Header
	Body      string
	Early     []early // The interim responses.
	Millis    int64
	BodyError string
}

type early struct {
	Status int
	Header textproto.MIMEHeader
}

func transport() *http.Transport {
	transport := &http.Transport{Protocols: protocols(*authorities != ""), DisableCompression: true}
	if *authorities != "" {
		transport.TLSClientConfig = trust(*authorities)
	}
	return transport
}

// A body of unknown length.
type unmeasured struct{ io.Reader }

func request() (*http.Request, *[]early) {
	var upload io.Reader
	if *body != "" || len(trailers) > 0 {
		upload = strings.NewReader(*body)
	}
	if len(trailers) > 0 {
		upload = unmeasured{upload}
	}
	seen := new([]early)
	trace := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			*seen = append(*seen, early{status, header})
			return nil
		}})
	request, err := http.NewRequestWithContext(trace, *method, *url, upload)
	check(err)
	request.Header = headers.header()
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	if len(trailers) > 0 {
		request.Trailer = trailers.header()
	}
	return request, seen
}

func exchange(transport *http.Transport) (responseReport, error) {
	start := time.Now()
	request, seen := request()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return responseReport{}, err
	}
	defer response.Body.Close()
	came := responseReport{Status: response.StatusCode, Proto: response.Proto, Header: response.Header}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		came.BodyError = err.Error()
	}
	came.Body, came.Trailer, came.Early = string(data), response.Trailer, *seen
	came.Millis = time.Since(start).Milliseconds()
	return came, nil
}

func sendRequests() {
	transport := transport()
	var all sync.WaitGroup
	var lock sync.Mutex
	var last responseReport
	for range *requests {
		all.Go(func() {
			came, err := exchange(transport)
			if err == nil && came.BodyError != "" && *requests > 1 {
				err = fmt.Errorf("%d, %s", came.Status, came.BodyError)
			}
			lock.Lock()
			defer lock.Unlock()
			check(err)
			last = came
		})
	}
	all.Wait()
	printJSON(last)
}
