use simulator::*;
fn main() {
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let f: u32 = std::env::args().nth(2).unwrap().parse().unwrap();
    let runs: u64 = std::env::args().nth(3).unwrap().parse().unwrap();
    for seed in 0..runs {
        let t = std::time::Instant::now();
        let mut s = Scenario::low_noise(n);
        s.seed = seed;
        s.failures = Failures::Within { count: f, span: s.timeout / 2 };
        let o = run(&s).unwrap();
        println!("{:?} stab {:?} {:?} {:?} b {} hb {} {:?}", t.elapsed(), o.stabilization(), o.closed, o.messages, o.broadcasts, o.heartbeats, o.work);
    }
}
