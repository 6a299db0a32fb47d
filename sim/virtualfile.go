package sim

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/virtual"
)

// virtualYAML is the form of Virtual in a scenario file.
type virtualYAML struct {
	Unannounced bool      `yaml:"unannounced,omitempty"`
	Net         netYAML   `yaml:"net,omitempty"`
	Clock       clockYAML `yaml:"clock,omitempty"`
}

type netYAML struct {
	Delay     time.Duration `yaml:"delay,omitempty"`
	Jitter    time.Duration `yaml:"jitter,omitempty"`
	Spike     time.Duration `yaml:"spike,omitempty"`
	LatePPM   int64         `yaml:"latePPM,omitempty"`
	DoublePPM int64         `yaml:"doublePPM,omitempty"`
	LostPPM   int64         `yaml:"lostPPM,omitempty"`
	MutePPM   int64         `yaml:"mutePPM,omitempty"`
	EdgePPM   int64         `yaml:"edgePPM,omitempty"`
}

type clockYAML struct {
	DriftPPM int64         `yaml:"driftPPM,omitempty"`
	Offset   time.Duration `yaml:"offset,omitempty"`
	Late     time.Duration `yaml:"late,omitempty"`
	Edge     bool          `yaml:"edge,omitempty"`
}

func (y *virtualYAML) virtual() Virtual {
	if y == nil {
		return Virtual{}
	}
	n, c := y.Net, y.Clock
	return Virtual{
		Unannounced: y.Unannounced,
		Net: virtual.Net{
			Delay: n.Delay, Jitter: n.Jitter, Spike: n.Spike, Late: n.LatePPM, Double: n.DoublePPM, Lost: n.LostPPM,
			Mute: n.MutePPM, Edge: n.EdgePPM,
		},
		Clock: virtual.Clock{Drift: c.DriftPPM, Offset: c.Offset, Late: c.Late, Edge: c.Edge},
	}
}

func (v Virtual) yaml() *virtualYAML {
	if v == (Virtual{}) {
		return nil
	}
	n, c := v.Net, v.Clock
	return &virtualYAML{
		Unannounced: v.Unannounced,
		Net: netYAML{
			Delay: n.Delay, Jitter: n.Jitter, Spike: n.Spike, LatePPM: n.Late, DoublePPM: n.Double, LostPPM: n.Lost,
			MutePPM: n.Mute, EdgePPM: n.Edge,
		},
		Clock: clockYAML{DriftPPM: c.Drift, Offset: c.Offset, Late: c.Late, Edge: c.Edge},
	}
}
