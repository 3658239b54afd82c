#[derive(Default)]
pub struct Clients;
