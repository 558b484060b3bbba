//! Every target with the kept corpus and with random bytes.

use bolero::check;

/// Random inputs of each target in a plain test run.
const INPUTS: usize = 2000;

macro_rules! targets {
    ($($name:ident: $target:path;)*) => {$(
        #[test]
        fn $name() {
            // libFuzzer starts this program again to merge inputs, without the name of the test.
            if std::env::var("FUZZ_TARGET").is_ok_and(|only| only != stringify!($name)) {
                return;
            }
            check!().with_iterations(INPUTS).with_max_len(2048).for_each(|bytes: &[u8]| $target(bytes));
        }
    )*};
}

targets! {
    datagram: fuzz::network::datagram;
    authentic_datagram: fuzz::network::authentic_datagram;
    member: fuzz::network::member;
    rendezvous: fuzz::network::rendezvous;
    records: fuzz::network::records;
    words: fuzz::network::words;
    offers: fuzz::network::offers;
    logger_words: fuzz::network::logger_words;
    group_packets: fuzz::network::group_packets;
    logger_packets: fuzz::local::logger_packets;
    packets: fuzz::local::packets;
    greetings: fuzz::local::greetings;
    answers: fuzz::local::answers;
    parameters: fuzz::local::parameters;
    interfaces: fuzz::local::interfaces;
    releases: fuzz::local::releases;
    segment: fuzz::local::segment;
    stops: fuzz::local::stops;
    output: fuzz::local::output;
    topology: fuzz::files::topology;
    parameter_file: fuzz::files::parameter_file;
    folders: fuzz::files::folders;
    leftovers: fuzz::files::leftovers;
    options: fuzz::files::options;
    timeline: fuzz::files::timeline;
    processes: fuzz::system::processes;
    sockets: fuzz::system::sockets;
    stream: fuzz::system::stream;
    sealed: fuzz::sealed::sealed;
    keys: fuzz::system::keys;
    addresses: fuzz::system::addresses;
    names: fuzz::system::names;
    values: fuzz::words::values;
    requests: fuzz::words::requests;
}
