package coordinator

import (
	"errors"
	"strings"
	"time"
)

// refitEvery is how often data on which etcd was not started is looked at again: an operator may have repaired it.
const refitEvery = 5 * time.Second

// unfit is data on which etcd was not started, because it would end the process again and again.
type unfit struct {
	why    string // "" for none
	dir    string
	looked time.Time
}

// misfit remembers why etcd was not started, if the data is the reason: from then on the node waits.
func (c *Coordinator) misfit(dir string, err error) {
	if !errors.Is(err, ErrUnfit) {
		return
	}
	_, why, _ := strings.Cut(err.Error(), ErrUnfit.Error()+": ")
	c.mu.Lock()
	c.unfit = unfit{why, dir, time.Now()}
	c.mu.Unlock()
}

// refit looks at such data again. It must not be called while something is being done, for it locks the directory.
func (c *Coordinator) refit() {
	c.mu.Lock()
	u, usable := c.unfit, !c.dead && !c.adopting
	c.mu.Unlock()
	if u.why == "" || !usable || time.Since(u.looked) < refitEvery {
		return
	}
	if err := c.world.Etcd.Fit(u.dir); errors.Is(err, ErrUnfit) {
		c.misfit(u.dir, err)
		return
	}
	c.mu.Lock()
	c.unfit = unfit{}
	c.mu.Unlock()
}
