package plan

// fault is one thing that fails, or is repaired.
func (w *world) fault() {
	n, m := w.someNode(), w.someNode()
	r := w.rng.IntN(100)
	if w.calm && r < 30 && !w.chance(10) {
		r += 30
	}
	switch {
	case r < 16:
		n.crash()
	case r < 22:
		for _, n := range w.boxes {
			n.crash()
		}
	case w.bleak && r < 26:
		for range w.slots {
			if m := w.someNode(); w.chance(50) {
				w.wipe(m)
			} else {
				w.loseWAL(m)
			}
		}
	case r < 26:
		w.wipe(n)
	case r < 27:
		w.loseWAL(n)
	case r < 28:
		w.loseLedger(n)
	case r < 52:
		n.boot()
	case r < 60:
		w.gossipCut[n.i][m.i] = n != m
	case r < 66:
		w.split(true)
	case r < 72:
		w.split(false)
	case r < 78:
		w.cutPeers(n, m, n != m)
	case r < 88:
		w.heal()
	case r < 90:
		n.store.down = !n.store.none
	case r < 93:
		n.remote = !n.store.none
	default:
		n.store.down, n.remote = false, false
		for _, c := range w.clusters {
			c.pause(w, n != m)
		}
	}
}

// wipe loses the disk that a node holds, and the node's process; a blank disk replaces it.
func (w *world) wipe(n *node) {
	d := n.disk
	if d == nil || w.wipes == 0 {
		return
	}
	w.wipes--
	w.note("%s loses disk %s", n.name, d.uuid)
	n.crash()
	d.gone = true
	w.lost = append(w.lost, d)
	for _, row := range w.disks {
		for s := range row {
			if row[s] == d {
				row[s] = nil
				if !w.host {
					row[s] = w.format(d.slot)
				}
			}
		}
	}
}

// loseWAL loses etcd's data and keeps the ledger.
func (w *world) loseWAL(n *node) {
	d := n.disk
	if d == nil || d.data == nil || d.ledger.Started == "" || w.wipes == 0 {
		return
	}
	w.wipes--
	w.note("%s loses the data of disk %s", n.name, d.uuid)
	n.crash()
	d.data = nil
	if w.chance(50) {
		d.built, d.complete = "", false
	}
}

// loseLedger loses the ledger beside etcd's data.
func (w *world) loseLedger(n *node) {
	d := n.disk
	if d == nil || d.data == nil || d.ledger.Started == "" || w.secures { // with the promise, only a second mistake does harm
		return
	}
	w.note("%s loses the ledger of disk %s", n.name, d.uuid)
	n.crash()
	d.ledger, d.marker = Ledger{}, false
	w.tally.event("ledger lost")
}
