// One process of a group of memberlist's (SWIM with Lifeguard, over UDP on loopback), for `scripts/bench ring`. It speaks on its
// standard input and output as the members in rdma-heartbeat/benches/ring do.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sys/unix"
)

// How many members a member asks for the others.
const asked = 3

// Duration is one of Rust's, as serde has it.
type Duration struct {
	Secs  int64 `json:"secs"`
	Nanos int64 `json:"nanos"`
}

func (duration Duration) of() time.Duration {
	return time.Duration(duration.Secs)*time.Second + time.Duration(duration.Nanos)
}

// Order is what a member is told in its first line.
type Order struct {
	Me      int      `json:"me"`
	Members []string `json:"members"`
	Period  Duration `json:"period"`
	Timeout Duration `json:"timeout"`
}

// Counted counts the datagrams that a transport sends.
type Counted struct {
	*memberlist.NetTransport
	sent atomic.Uint64
}

func (counted *Counted) WriteTo(data []byte, address string) (time.Time, error) {
	counted.sent.Add(1)
	return counted.NetTransport.WriteTo(data, address)
}

func (counted *Counted) WriteToAddress(data []byte, address memberlist.Address) (time.Time, error) {
	counted.sent.Add(1)
	return counted.NetTransport.WriteToAddress(data, address)
}

// Now is the clock of platform::clock::now.
func now() Duration {
	var at unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_BOOTTIME, &at))
	return Duration{at.Sec, at.Nsec}
}

var output sync.Mutex

func say(said any) {
	line, err := json.Marshal(said)
	must(err)
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Told says which members went down.
type Told struct{}

func (Told) NotifyJoin(*memberlist.Node)   {}
func (Told) NotifyUpdate(*memberlist.Node) {}
func (Told) NotifyLeave(node *memberlist.Node) {
	at := now()
	member, err := strconv.Atoi(node.Name)
	must(err)
	say(map[string]any{"Down": map[string]any{"member": member, "at": at}})
}

// settings are those of memberlist for a local network, at another period; nothing is sent at intervals but the probes.
func settings(order Order, transport memberlist.Transport) *memberlist.Config {
	config := memberlist.DefaultLANConfig()
	scale := math.Max(1, math.Log10(float64(len(order.Members))))
	period := order.Period.of()
	config.Name = strconv.Itoa(order.Me)
	config.Transport = transport
	config.ProbeInterval, config.ProbeTimeout, config.GossipInterval = period, period/2, period/5
	config.SuspicionMult = int(math.Max(1, math.Round(float64(order.Timeout.of())/float64(period)/scale)))
	config.PushPullInterval = 0
	config.DisableTcpPings = true
	config.Events = Told{}
	config.Logger = log.New(io.Discard, "", 0)
	return config
}

func main() {
	quiet := log.New(io.Discard, "", 0)
	transport, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{"127.0.0.1"}, Logger: quiet})
	must(err)
	counted := &Counted{NetTransport: transport}
	port := transport.GetAutoBindPort()
	say(map[string]string{"At": net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})

	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	must(err)
	var order Order
	must(json.Unmarshal(line, &order))
	config := settings(order, counted)
	config.BindAddr, config.BindPort = "127.0.0.1", port
	config.AdvertiseAddr, config.AdvertisePort = "127.0.0.1", port
	group, err := memberlist.Create(config)
	must(err)
	if order.Me > 0 {
		_, err = group.Join(order.Members[:min(order.Me, asked)])
		must(err)
	}
	for {
		if _, err := input.ReadBytes('\n'); err != nil {
			return
		}
		say(map[string]uint64{"Sent": counted.sent.Load()})
	}
}
